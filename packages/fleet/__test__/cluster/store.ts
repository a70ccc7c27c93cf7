/** The objects of an API server: versions, conflicts, and the history that watches read. */

// biome-ignore lint/suspicious/noExplicitAny: objects have every shape
export type KubeObject = any

export interface StoreEvent {
  version: number
  type: 'ADDED' | 'MODIFIED' | 'DELETED'
  key: string
  object: KubeObject
}

/** An error response of the API server. */
export class StatusError extends Error {
  readonly code: number
  readonly reason: string

  constructor(code: number, reason: string, message: string) {
    super(message)
    this.code = code
    this.reason = reason
  }
}

export class Store {
  readonly #objects = new Map<string, KubeObject>()
  readonly #listeners = new Set<(event: StoreEvent) => void>()
  #history: StoreEvent[] = []
  #version = 100
  /** Versions up to here are no longer in the history. */
  compacted = 100
  #uids = 0

  get version(): number {
    return this.#version
  }

  /** Keys are `<plural>/<namespace>/<name>`. */
  get(key: string): KubeObject {
    const object = this.#objects.get(key)
    if (object === undefined) throw new StatusError(404, 'NotFound', `${key} not found`)
    return structuredClone(object)
  }

  find(key: string): KubeObject | undefined {
    return this.#objects.has(key) ? this.get(key) : undefined
  }

  list(prefix: string): KubeObject[] {
    const keys = [...this.#objects.keys()].filter((key) => key.startsWith(prefix))
    return keys.map((key) => this.get(key))
  }

  create(key: string, object: KubeObject): KubeObject {
    if (this.#objects.has(key)) throw new StatusError(409, 'AlreadyExists', `${key} already exists`)
    const metadata = {
      ...object.metadata,
      uid: `uid-${++this.#uids}`,
      creationTimestamp: new Date().toISOString(),
    }
    return this.#put('ADDED', key, { ...object, metadata })
  }

  /** Refuses to patch an object that has changed since the patch's version. */
  patch(key: string, patch: KubeObject): KubeObject {
    const object = this.get(key)
    const version = patch.metadata?.resourceVersion
    if (version !== undefined && version !== object.metadata.resourceVersion)
      throw new StatusError(409, 'Conflict', `${key} has been modified`)
    return this.#put('MODIFIED', key, merge(object, patch))
  }

  delete(key: string, uid?: string): KubeObject {
    const object = this.get(key)
    if (uid !== undefined && uid !== object.metadata.uid)
      throw new StatusError(409, 'Conflict', `${key} has another uid`)
    this.#objects.delete(key)
    return this.#record('DELETED', key, object)
  }

  /** The events after a version. Throws 410 if the history does not reach back that far. */
  since(version: number): StoreEvent[] {
    if (version < this.compacted)
      throw new StatusError(410, 'Expired', `too old resource version: ${version}`)
    return this.#history.filter((event) => event.version > version)
  }

  /** Drops the history, as etcd does after some minutes. */
  compact(): void {
    this.compacted = this.#version
    this.#history = []
  }

  listen(listener: (event: StoreEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #put(type: StoreEvent['type'], key: string, object: KubeObject): KubeObject {
    this.#objects.set(key, object)
    return this.#record(type, key, object)
  }

  #record(type: StoreEvent['type'], key: string, object: KubeObject): KubeObject {
    object.metadata.resourceVersion = String(++this.#version)
    const event = { version: this.#version, type, key, object: structuredClone(object) }
    this.#history.push(event)
    if (this.#history.length > 2000) this.compacted = this.#history.shift()?.version ?? this.compacted
    for (const listener of [...this.#listeners]) listener(event)
    return structuredClone(object)
  }
}

/** A merge patch (RFC 7386). */
function merge(target: KubeObject, patch: KubeObject): KubeObject {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch
  const result = typeof target === 'object' && target !== null && !Array.isArray(target) ? { ...target } : {}
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name]
    else result[name] = merge(result[name], value)
  }
  return result
}
