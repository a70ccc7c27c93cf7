/**
 * The log of a process as events: the output so far, then new output, then how the process ended. Leaving the loop closes the
 * reader; the process is unaffected. Nothing is read ahead.
 */

import { onAbort } from '../../../base/abort.js'
import { AbortError } from '../../../base/errors.js'
import { Steps } from '../../../base/steps.js'
import type { NativeLog } from '../../../boundary/index.js'
import type { Encoding, LogEvent } from '../../../calls/index.js'
import type { LogStreamPlan } from '../../../requests/logs.js'
import { exitOf, type ProcessHandle } from './handle.js'
import { LOOK_BACK_BYTES, LogDecoder } from './log-decoder.js'
import { LogReader } from './log-reader.js'

type Event = LogEvent<Encoding>
type Result = IteratorResult<Event, undefined>

const DONE: Result = { done: true, value: undefined }

/** The state of a stream that is being read. */
interface Reading {
  handle: ProcessHandle
  reader: LogReader
  decoder: LogDecoder
  /** Where to stop if the log is not followed. */
  until: number
  release: () => void
}

export class LogStream extends Steps<Event> {
  readonly #find: () => ProcessHandle
  readonly #plan: LogStreamPlan
  #reading: Reading | undefined
  #events: Event[] = []
  #given = 0
  #over = false
  #failure: { error: unknown } | undefined

  /** Reads nothing before the first `next`, which rejects if `find` throws. */
  constructor(find: () => ProcessHandle, plan: LogStreamPlan) {
    super()
    this.#find = find
    this.#plan = plan
  }

  protected async step(): Promise<Result> {
    for (;;) {
      const value = this.#take()
      if (value !== undefined) return { done: false, value }
      this.#throwFailure()
      if (this.#over) return DONE
      await this.#fill()
    }
  }

  protected end(): void {
    this.#events = []
    this.#given = 0
    this.#failure = undefined
    this.#close()
  }

  #take(): Event | undefined {
    const event = this.#events[this.#given]
    if (event === undefined) return undefined
    this.#given++
    if (this.#given === this.#events.length) {
      this.#events = []
      this.#given = 0
    }
    return event
  }

  /** Throws the failure once; after that the stream is over. */
  #throwFailure(): void {
    const failure = this.#failure
    this.#failure = undefined
    if (failure !== undefined) throw failure.error
  }

  /** Fetches the next slice. */
  async #fill(): Promise<void> {
    try {
      const reading = this.#reading ?? (await this.#open())
      const log = await reading.reader.read(this.#plan.follow)
      if (log !== undefined && !this.#over) await this.#receive(reading, log)
    } catch (error) {
      this.#fail(error)
    }
  }

  async #open(): Promise<Reading> {
    const { cursor, encoding, follow, signal } = this.#plan
    const handle = this.#find()
    const reader = new LogReader(handle.engine, handle.ref, cursor, 'awaited')
    const abort = () => this.#fail(new AbortError(signal?.reason, undefined, 'reading the log'))
    const release = onAbort(signal, abort)
    const reading = { handle, reader, decoder: new LogDecoder(encoding, cursor), until: Infinity, release }
    this.#reading = reading
    if (signal?.aborted) abort()
    if (cursor > 0 && encoding === 'utf8') {
      const start = Math.max(0, cursor - LOOK_BACK_BYTES)
      const before = await reader.peek(start, cursor - start)
      if (before !== undefined) reading.decoder.prime(before)
    }
    if (!follow) reading.until = await reader.end()
    return reading
  }

  async #receive({ handle, decoder, until }: Reading, log: NativeLog): Promise<void> {
    const events: Event[] = decoder.write(log)
    if (log.ended) {
      const end = await handle.wait()
      const endedAt = end.endedAt ?? Date.now()
      events.push(...decoder.end(endedAt))
      const missing = decoder.takeMissing()
      events.push({ type: 'exit', ...exitOf(end), time: new Date(endedAt), ...(missing > 0 && { missing }) })
    }
    this.#events = events
    if (log.ended || log.next >= until) this.#close()
  }

  /** Ends the stream with an error and drops events that were not taken. */
  #fail(error: unknown): void {
    if (this.#over) return
    this.#failure = { error }
    this.#events = []
    this.#given = 0
    this.#close()
  }

  #close(): void {
    this.#over = true
    this.#reading?.reader.close()
    this.#reading?.release()
  }
}
