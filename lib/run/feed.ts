/**
 * The reports of a run that its consumer has not taken yet. Backpressure begins here.
 *
 * The engine sends at most a window of output pieces, plus one piece for each permit that is returned: one permit per piece
 * taken. A consumer that takes nothing leaves the engine without permits. The engine then stops reading the pipe, and
 * finally the command blocks. So the feed is bounded, however much the command prints.
 */

import { OptionError } from '../base/errors.js'
import type { Encoding, ExecResult } from '../calls/index.js'
import type { RunObserver } from './run.js'

/** The result of a run, or its error. */
export type Outcome = { result: ExecResult<Encoding>; error?: never } | { error: unknown; result?: never }

/** A piece of one stream: 1 is stdout, 2 is stderr. `end` is the offset after the piece in that stream, in bytes. */
export interface Piece {
  type: 'output'
  stream: number
  data: Uint8Array
  end: number
}

/** An entry of the feed. `time` is its arrival, in milliseconds since the epoch. */
export type Item = { time: number } & ({ type: 'start'; pid: number } | Piece | ({ type: 'end' } & Outcome))

/** Maximum pieces in flight: WINDOW in `src/pending.rs`. */
const OUTPUT_WINDOW = 16
/** Permits are returned in this many parts of the window, since each call across the boundary wakes the engine. */
const PARTS = 4

export class Feed implements RunObserver {
  readonly #giveBack: (permits: number) => void
  readonly #window: number
  readonly #permitsAtOnce: number
  readonly #ends = [0, 0, 0]
  #items: Item[] = []
  /** Number of pieces among the items. */
  #held = 0
  /** Permits of taken pieces that have not been returned yet. */
  #owed = 0
  /** `unread`: no item has been taken. `drained`, `closed`: new items are dropped. */
  #state: 'unread' | 'read' | 'drained' | 'closed' = 'unread'
  #isRunning = true
  #isFinished = false
  #resultAwaited = false
  #arrived = () => {}

  /** `giveBack` returns permits to the engine. `window` is the number of pieces that the engine sends without permits. */
  constructor(giveBack: (permits: number) => void, window = OUTPUT_WINDOW) {
    this.#giveBack = giveBack
    this.#window = window
    this.#permitsAtOnce = Math.max(1, Math.floor(window / PARTS))
  }

  start(pid: number): void {
    this.#add({ type: 'start', pid, time: Date.now() })
  }

  /** Keeps the piece, and its permit, until it is taken. */
  output(stream: number, data: Uint8Array): boolean {
    const end = (this.#ends[stream] ?? 0) + data.length
    this.#ends[stream] = end
    if (this.#isDropping()) return false
    this.#held++
    this.#add({ type: 'output', stream, data, end, time: Date.now() })
    this.#drainUnlessRead()
    return true
  }

  /** Marks the command as ended: it needs no more permits. `finish` follows with its outcome. */
  end(): void {
    this.#isRunning = false
  }

  /** Adds the last item. A result that was awaited alone is then all that remains, however little output there was. */
  finish(outcome: Outcome): void {
    this.#isFinished = true
    if (this.#resultAwaited) this.#drain()
    this.#add({ type: 'end', ...outcome, time: Date.now() })
  }

  /** Calls `arrived` whenever there is something new to take. */
  listen(arrived: () => void): void {
    this.#arrived = arrived
  }

  /** True when there is nothing to take. */
  get isEmpty(): boolean {
    return this.#items.length === 0
  }

  /**
   * Takes the next item, if there is one; a piece is cut after `mostBytes`. Throws STREAM_LOCKED if the output was dropped.
   */
  take(mostBytes: number): Item | undefined {
    if (this.#state === 'drained') {
      throw new OptionError(
        'STREAM_LOCKED',
        'the output was dropped, because `result` was awaited while nothing read it: start reading before the command ends, or take the output from the result',
      )
    }
    if (this.#state === 'unread') this.#state = 'read'
    const item = this.#items[0]
    if (item?.type === 'output' && item.data.length > mostBytes) return cut(item, mostBytes)
    this.#items.shift()
    if (item?.type === 'output') {
      this.#held--
      this.#owed++
    }
    if (this.#owed === this.#permitsAtOnce || (this.#owed > 0 && item === undefined)) this.#pay()
    return item
  }

  /**
   * Marks the result as awaited. An unread stream then drops its output, which would otherwise block the command. If the
   * command has ended, a reader can still start in the same step, but not once the caller has the result.
   */
  awaitResult(): void {
    this.#resultAwaited = true
    this.#drainUnlessRead()
    if (this.#isFinished) void Promise.resolve().then(() => this.#drain())
  }

  /** Drops held and future items. */
  close(): void {
    this.#state = 'closed'
    this.#drop()
  }

  #add(item: Item): void {
    if (this.#isDropping()) return
    this.#items.push(item)
    this.#arrived()
  }

  /** Drops output only once the window is full: until then a reader may still start without losing anything. */
  #drainUnlessRead(): void {
    if (!this.#isRunning || !this.#resultAwaited) return
    if (this.#held >= this.#window) this.#drain()
  }

  /** Drops the output of an unread stream. */
  #drain(): void {
    if (this.#state !== 'unread') return
    this.#state = 'drained'
    this.#drop()
  }

  #drop(): void {
    this.#owed += this.#held
    this.#held = 0
    this.#items = []
    this.#pay()
  }

  #pay(): void {
    this.#giveBack(this.#owed)
    this.#owed = 0
  }

  #isDropping(): boolean {
    return this.#state === 'drained' || this.#state === 'closed'
  }
}

/** Takes the first bytes off a piece. */
function cut<T extends Piece>(piece: T, bytes: number): T {
  const data = piece.data.subarray(0, bytes)
  piece.data = piece.data.subarray(bytes)
  return { ...piece, data, end: piece.end - piece.data.length }
}
