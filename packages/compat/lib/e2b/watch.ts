/** Changes in directories, as envd reports them. */
import { randomBytes } from 'node:crypto'
import path from 'node:path'
import type { FileEvent } from 'nacre'
import { kinds, plans } from 'nacre/internal'

import { RpcError, rpcError } from '../failure.js'
import { type Hosted, perRun } from '../hosted.js'
import { describeFile } from './metadata.js'

/** A client that does not take them loses the watcher. */
const MOST_EVENTS = 10_000
const MOST_WATCHERS = 256

export interface WatchOptions {
  recursive: boolean
  /** Whether events describe the file. */
  withEntry: boolean
  signal: AbortSignal
}

export interface WatchEvent {
  /** Relative to the directory. */
  name: string
  type: string
  entry?: object
}

/** Resolves when later changes are seen. */
export async function openWatch(
  hosted: Hosted,
  directory: string,
  { recursive, withEntry, signal }: WatchOptions,
): Promise<AsyncIterable<WatchEvent>> {
  const files = hosted.backend.files(plans.DEFAULT_SESSION)
  const changes = files.watch(kinds.checkPath(directory, 'path'), plans.planFileWatch({ recursive, signal }))
  await changes.begun
  return translate()

  async function* translate(): AsyncGenerator<WatchEvent> {
    for await (const change of changes)
      for (const [type, file] of await eventsOf(hosted, change)) {
        const entry = withEntry ? await describeFile(hosted, file).catch(() => undefined) : undefined
        yield { name: path.relative(directory, file), type, ...(entry === undefined ? {} : { entry }) }
      }
  }
}

async function eventsOf({ sandbox }: Hosted, change: FileEvent): Promise<[type: string, file: string][]> {
  const created: [string, string] = ['EVENT_TYPE_CREATE', change.path]
  const written: [string, string] = ['EVENT_TYPE_WRITE', change.path]
  const { type, path: file, oldPath } = change
  switch (type) {
    case 'created': {
      // A new file appears with its content, which other systems report as a change.
      const known = await sandbox.files.stat(file).catch(() => null)
      return known?.type === 'file' && known.size > 0 ? [created, written] : [created]
    }
    case 'modified':
      return [written]
    case 'deleted':
      return [['EVENT_TYPE_REMOVE', file]]
    case 'renamed':
      return [['EVENT_TYPE_RENAME', oldPath ?? file], created]
    case 'overflow':
      throw new RpcError('data_loss', 'there were too many changes: watch again, and list the directory')
  }
}

interface Watcher {
  events: WatchEvent[]
  failure: RpcError | undefined
  stop(): void
}

/** Watchers whose events clients take now and then. They end with the sandbox. */
export class Watchers {
  readonly #of = perRun<Map<string, Watcher>>('watchers', {
    create: () => new Map(),
    inMemory: ({ size }) => (size === 0 ? [] : [`${size} watchers of directories`]),
  })

  async create(
    hosted: Hosted,
    open: (signal: AbortSignal) => Promise<AsyncIterable<WatchEvent>>,
  ): Promise<{ watcherId: string }> {
    const known = this.#of(hosted)
    if (known.size >= MOST_WATCHERS)
      throw new RpcError('resource_exhausted', `a sandbox has at most ${MOST_WATCHERS} watchers`)
    const stopping = new AbortController()
    const watcherId = `w${randomBytes(8).toString('hex')}`
    const stop = () => {
      stopping.abort()
      known.delete(watcherId)
      hosted.onHalt.delete(stop)
    }
    const watcher: Watcher = { events: [], failure: undefined, stop }
    // Before it waits, so that calls at the same time count too.
    known.set(watcherId, watcher)
    hosted.onHalt.add(stop)
    try {
      void collect(watcher, await open(stopping.signal))
    } catch (error) {
      stop()
      throw error
    }
    return { watcherId }
  }

  take(hosted: Hosted, id: string): WatchEvent[] {
    const { events, failure } = this.#find(hosted, id)
    if (failure !== undefined) throw failure
    return events.splice(0)
  }

  remove(hosted: Hosted, id: string): void {
    this.#find(hosted, id).stop()
  }

  #find(hosted: Hosted, id: string): Watcher {
    const watcher = this.#of(hosted).get(id)
    if (watcher === undefined) throw new RpcError('not_found', `there is no watcher '${id}'`)
    return watcher
  }
}

async function collect(watcher: Watcher, changes: AsyncIterable<WatchEvent>): Promise<void> {
  try {
    for await (const event of changes) {
      if (watcher.events.length === MOST_EVENTS)
        throw new RpcError('data_loss', `more than ${MOST_EVENTS} events were not taken`)
      watcher.events.push(event)
    }
  } catch (error) {
    watcher.events = []
    watcher.failure = rpcError(error)
  }
}
