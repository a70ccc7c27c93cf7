/**
 * Numbers that are used once each, in about the order of their size.
 *
 * A request can be delayed and arrive after its own repetition has been answered and forgotten. Only a complete record of
 * the numbers keeps it from running then. All numbers below `#next` are used, and so are those of `#ahead`.
 */
/** More numbers ahead of a missing one are not recorded: the missing one then counts as used. */
const MOST_AHEAD = 4096

export class UsedNumbers {
  #next = 1
  readonly #ahead = new Set<number>()

  /** Marks a number as used. False when it already was. */
  take(number: number): boolean {
    if (number < this.#next || this.#ahead.has(number)) return false
    this.#ahead.add(number)
    if (this.#ahead.size > MOST_AHEAD) this.#next = Math.min(...this.#ahead)
    while (this.#ahead.delete(this.#next)) this.#next++
    return true
  }
}
