/**
 * A watch as an async iterator. Watching starts immediately, so that nothing is missed before the first step.
 */
import { onAbort, refuseAborted } from '../../../base/abort.js'
import { AbortError } from '../../../base/errors.js'
import { Steps } from '../../../base/steps.js'
import type { NativeFileChange } from '../../../boundary/index.js'
import type { FileEvent } from '../../../calls/index.js'
import type { FileWatchPlan } from '../../../requests/files.js'
import type { CheckedPath } from '../../../schema/paths.js'
import { type Engine, returned } from '../engine.js'
import type { FileScope } from './source.js'

export class FileWatch extends Steps<FileEvent> {
  readonly #engine: Engine
  readonly #signal: AbortSignal | undefined
  /** Resolves when later changes are seen. Rejects if the path cannot be watched. */
  readonly begun: Promise<unknown>
  readonly #handle: Promise<number>
  readonly #ignore: () => void
  #waiting: NativeFileChange[] = []
  readonly #stop = new AbortController()
  #isOver = false

  constructor({ engine, sessionId }: FileScope, path: CheckedPath, { recursive, signal }: FileWatchPlan) {
    super()
    this.#engine = engine
    this.#signal = signal
    this.#ignore = onAbort(signal, () => this.end())
    this.#handle = this.#open(sessionId, path, recursive)
    // The first step reports the failure.
    this.#handle.catch(() => {})
    this.begun = this.#handle
  }

  async #open(sessionId: string, path: CheckedPath, recursive: boolean): Promise<number> {
    refuseAborted(this.#signal, 'the watch')
    const handle = returned(
      await this.#engine.call((native, id) => native.fileWatch(id, sessionId, path.bytes, recursive)),
    )
    if (this.#isOver) this.#close(handle)
    return handle
  }

  protected async step(): Promise<IteratorResult<FileEvent, undefined>> {
    try {
      while (!this.#isOver || this.#waiting.length > 0) {
        const change = this.#waiting.shift()
        if (change !== undefined) return { done: false, value: eventOf(change) }
        await this.#receive()
      }
    } catch (error) {
      this.end()
      this.#checkAbort()
      throw error
    }
    this.#checkAbort()
    return { done: true, value: undefined }
  }

  /** Waits for the next changes. An empty list is the end. */
  async #receive(): Promise<void> {
    const handle = await this.#handle
    if (this.#isOver) return
    const changes = await this.#engine.call(
      (native, id) => native.fileWatchNext(id, handle),
      this.#stop.signal,
    )
    if (this.#isOver) return
    this.#waiting = changes ?? []
    if (this.#waiting.length === 0) this.end()
  }

  #checkAbort(): void {
    if (this.#signal?.aborted) throw new AbortError(this.#signal.reason, undefined, 'the watch')
  }

  /** Closes the watch; changes not yet returned are dropped. */
  protected end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#waiting = []
    this.#ignore()
    this.#stop.abort()
    this.#handle.then(
      (handle) => this.#close(handle),
      () => {},
    )
  }

  #close(handle: number): void {
    this.#engine.release((native) => native.fileClose(handle))
  }
}

function eventOf({ kind, ...paths }: NativeFileChange): FileEvent {
  return { type: kind, ...paths }
}
