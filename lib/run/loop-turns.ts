/**
 * Makes a reader yield to the event loop.
 *
 * A loop over a stream spends only a microtask on a value that is already available. With megabytes of short lines waiting,
 * nothing else in this process would run for a tenth of a second.
 */
import { performance, setTimeout } from '../base/timers.js'

/** Maximum milliseconds without a turn of the event loop, unless one item takes longer. */
const LONGEST_MS = 4

/** Runs a function after this turn. Browsers have no setImmediate. */
const afterThisTurn: (resume: () => void) => void =
  globalThis.setImmediate ?? ((resume: () => void) => setTimeout(resume, 0))

export class LoopTurns {
  readonly #resume: () => void
  /** When this turn took its first item. */
  #begun: number | undefined

  /** `resume` is called after a turn of the event loop. */
  constructor(resume: () => void) {
    this.#resume = resume
  }

  /** Whether this turn has time for another item. If not, `resume` is called later. */
  hasTime(): boolean {
    if (this.#begun !== undefined) return performance.now() - this.#begun < LONGEST_MS
    this.#begun = performance.now()
    afterThisTurn(() => {
      this.#begun = undefined
      this.#resume()
    })
    return true
  }
}
