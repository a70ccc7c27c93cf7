/**
 * Waiting between two looks at a remote job: no news arrives from there, and a connection that is held open would be
 * lost with it. Short at first, then longer and longer while nothing happens.
 */
import { setTimeout as sleep } from 'node:timers/promises'

const FIRST_MS = 50
const GROWTH = 1.6

export class Backoff {
  readonly #most: number
  #next = FIRST_MS
  #seen: number | undefined

  /** `most` is the longest wait in milliseconds. */
  constructor(most: number) {
    this.#most = most
  }

  /**
   * Waits, or until `stop` is aborted, which is for the caller to see. `seen` is how much the look before has found:
   * when that is more than the time before, the waits are short again.
   */
  async wait(seen: number, stop: AbortSignal | undefined): Promise<void> {
    if (seen !== this.#seen) this.#next = FIRST_MS
    this.#seen = seen
    const time = Math.min(this.#next, this.#most)
    this.#next = Math.min(this.#next * GROWTH, this.#most)
    await sleep(time, undefined, { signal: stop }).catch(() => {})
  }
}
