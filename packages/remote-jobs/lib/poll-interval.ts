/**
 * The pause between two polls of a remote job: short at first, then longer while nothing changes.
 *
 * A remote job cannot notify its reader, and an open connection would be lost together with the reader.
 */
import { timers } from 'nacre/internal'

const { setTimeout: sleep } = timers

const FIRST_MS = 50
const GROWTH = 1.6

export class PollInterval {
  readonly #most: number
  #next = FIRST_MS
  #seen: number | undefined

  /** `most` is the longest pause in milliseconds. */
  constructor(most: number) {
    this.#most = most
  }

  /**
   * Waits; ends early when `stop` is aborted. `seen` is how much the last poll found: when it changes, the pauses become
   * short again.
   */
  async wait(seen: number, stop: AbortSignal | undefined): Promise<void> {
    if (seen !== this.#seen) this.#next = FIRST_MS
    this.#seen = seen
    const time = Math.min(this.#next, this.#most)
    this.#next = Math.min(this.#next * GROWTH, this.#most)
    await sleep(time, undefined, { signal: stop }).catch(() => {})
  }
}
