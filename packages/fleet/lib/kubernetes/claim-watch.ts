/**
 * The claims of fleets, followed by one watch.
 *
 * The watch continues from the last version that it has seen. When the API server does not have that version any more, or
 * has sent what is no event, it begins anew with a list. A dropped watch reconnects with growing pauses. A refused one
 * is reported to all listeners, and a new listener makes the next attempt begin immediately.
 */
import { Backoff, clock } from 'nacre/internal'
import { isLasting, type KubernetesApi, statusOf } from './api.js'
import type { Claim } from './claim.js'
import { InvalidEvent } from './watch-stream.js'

export interface Listener {
  /** A claim has changed; undefined when it is not there. */
  changed(claim: Claim | undefined): void
  /** The API server refuses the watch, and will refuse it again. */
  refused(error: unknown): void
}

/** Milliseconds after which a watch was no failure, however it has ended. */
const HEALTHY_MS = 1000

export class ClaimWatch {
  readonly #api: KubernetesApi
  readonly #claims = new Map<string, Claim>()
  readonly #listeners = new Map<string, Set<Listener>>()
  readonly #stop = new AbortController()
  readonly #backoff = new Backoff(50, 5000)
  #version: string | undefined
  /** Why the last attempt has failed; undefined once the API server has answered again. */
  #failure: unknown
  /** Ends the pause after a refused attempt. */
  #wake = new AbortController()
  #running: Promise<void> | undefined

  constructor(api: KubernetesApi) {
    this.#api = api
  }

  /** The claim as it was last seen. */
  find(name: string): Claim | undefined {
    return this.#claims.get(name)
  }

  /** Why the watch reports nothing at the moment; undefined if it works. */
  get failure(): unknown {
    return this.#failure
  }

  /** Calls the listener with each change of a claim from now on. Returns the function that ends that. */
  follow(name: string, listener: Listener): () => void {
    this.#running ??= this.#run()
    const listeners = this.#listeners.get(name) ?? new Set()
    this.#listeners.set(name, listeners.add(listener))
    if (isLasting(this.#failure)) this.#wake.abort()
    return () => {
      listeners.delete(listener)
      if (listeners.size === 0 && this.#listeners.get(name) === listeners) this.#listeners.delete(name)
    }
  }

  async close(): Promise<void> {
    this.#stop.abort()
    this.#listeners.clear()
    await this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      const begun = clock.performance.now()
      try {
        this.#version ??= await this.#list()
        await this.#api.watch(this.#version, signal, (type, object) => this.#receive(type, object))
      } catch (error) {
        if (statusOf(error) === 410 || error instanceof InvalidEvent) this.#version = undefined
        this.#fail(error)
      }
      if (clock.performance.now() - begun >= HEALTHY_MS) this.#backoff.reset()
      if (signal.aborted) return
      this.#wake = new AbortController()
      await this.#backoff.wait(AbortSignal.any([signal, this.#wake.signal]))
    }
  }

  #fail(error: unknown): void {
    this.#failure = error
    if (!isLasting(error)) return
    const listeners = [...this.#listeners.values()].flatMap((each) => [...each])
    for (const listener of listeners) listener.refused(error)
  }

  async #list(): Promise<string> {
    const { items, metadata } = await this.#api.list(this.#stop.signal)
    this.#failure = undefined
    const names = new Set(items.map((claim) => claim.metadata.name))
    for (const name of [...this.#claims.keys()]) if (!names.has(name)) this.#change(name, undefined)
    // A claim that was deleted before it was ever seen is missed by its listeners alone.
    for (const name of this.#listeners.keys()) if (!names.has(name)) this.#change(name, undefined)
    for (const claim of items) this.#change(claim.metadata.name, claim)
    return metadata.resourceVersion ?? ''
  }

  #receive(type: string, object: Claim & { code?: number }): void {
    if (type === 'ERROR') {
      if (object.code === 410) this.#version = undefined
      this.#fail(object)
      return
    }
    this.#failure = undefined
    if (this.#version === undefined) return
    this.#version = object.metadata.resourceVersion ?? this.#version
    if (type === 'ADDED' || type === 'MODIFIED') this.#change(object.metadata.name, object)
    if (type === 'DELETED') this.#change(object.metadata.name, undefined)
  }

  #change(name: string, claim: Claim | undefined): void {
    if (claim === undefined) this.#claims.delete(name)
    else this.#claims.set(name, claim)
    for (const listener of [...(this.#listeners.get(name) ?? [])]) listener.changed(claim)
  }
}
