/**
 * Makes a reader yield to the event loop.
 *
 * A value that is there already costs a loop over a stream no more than a microtask. With megabytes of short lines
 * waiting, it would otherwise be the only thing that runs in this process for a tenth of a second.
 */

/** The longest time without a turn of the event loop, unless one item takes longer. */
const LONGEST_MS = 4

/** Browsers have no setImmediate. */
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

  /** Whether another item can be taken in this turn. If not, `resume` is called later. */
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
