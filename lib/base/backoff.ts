/** Pauses between attempts: doubled each time, and randomized so that many clients do not return at once. */
import { pause } from './waiting.js'

export class Backoff {
  readonly #first: number
  readonly #longest: number
  #failures = 0

  /** Milliseconds. */
  constructor(first: number, longest: number) {
    this.#first = first
    this.#longest = longest
  }

  reset(): void {
    this.#failures = 0
  }

  /** Waits for at least `least` milliseconds; ends early when `stop` is aborted. */
  async wait(stop: AbortSignal, least = 0): Promise<void> {
    const limit = Math.min(this.#first * 2 ** this.#failures, this.#longest)
    this.#failures++
    await pause(Math.max(least, limit * (0.5 + Math.random() / 2)), stop)
  }
}
