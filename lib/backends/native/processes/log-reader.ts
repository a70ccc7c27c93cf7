/**
 * Reads the log of a process slice by slice. A reader is only a cursor: a slow reader delays nothing, and old and new
 * output are read in the same way.
 */
import type { NativeLog, NativeProcessRef, NativeSandbox } from '../../../boundary/index.js'
import type { Engine } from '../engine.js'

/** Maximum bytes of one slice. */
const SLICE_BYTES = 256 * 1024

/** Whether a pending read keeps the event loop alive. */
export type Presence = 'awaited' | 'idle'

export class LogReader {
  readonly #engine: Engine
  readonly #process: NativeProcessRef
  readonly #presence: Presence
  #cursor: number
  readonly #stop = new AbortController()

  constructor(engine: Engine, process: NativeProcessRef, cursor: number, presence: Presence) {
    this.#engine = engine
    this.#process = process
    this.#cursor = cursor
    this.#presence = presence
  }

  /** Where the next slice begins. */
  get cursor(): number {
    return this.#cursor
  }

  /**
   * Reads the next slice. With `follow`, it waits until there is output or the process has ended; otherwise the slice is empty if
   * there is no output yet. Undefined after `close`.
   */
  async read(follow: boolean): Promise<NativeLog | undefined> {
    const log = await this.#read(this.#cursor, SLICE_BYTES, follow)
    if (log !== undefined) this.#cursor = log.next
    return log
  }

  /** Reads a part of the log without moving the cursor. Undefined after `close`. */
  peek(cursor: number, bytes: number): Promise<NativeLog | undefined> {
    return this.#read(cursor, bytes, false)
  }

  /** Where the log ends now. */
  async end(): Promise<number> {
    const log = await this.#read(Number.MAX_SAFE_INTEGER, 1, false)
    return log?.next ?? 0
  }

  /** Ends a pending read, which resolves with undefined. */
  close(): void {
    this.#stop.abort()
  }

  async #read(cursor: number, bytes: number, follow: boolean): Promise<NativeLog | undefined> {
    const { signal } = this.#stop
    if (signal.aborted) return undefined
    const read = (native: NativeSandbox, id: number) =>
      native.readLog(id, this.#process, cursor, bytes, follow)
    try {
      const log = await this.#engine.observe(read, this.#presence === 'awaited', signal)
      return signal.aborted ? undefined : (log ?? undefined)
    } catch (error) {
      if (signal.aborted) return undefined
      throw error
    }
  }
}
