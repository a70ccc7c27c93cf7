/**
 * How long a call is repeated whose connection breaks.
 *
 * The time runs from the last contact with the server. When it is up, the server is asked once whether it is still there:
 * a proxy may cut each request before the server has had a reason to answer it.
 */
import { performance } from '../../base/timers.js'
import { reconnectBackoff } from './repeat.js'

export class Persistence {
  readonly #timeout: number
  readonly #isThere: () => Promise<boolean>
  #contact = performance.now()
  readonly #backoff = reconnectBackoff()

  /** `timeout` is in milliseconds. `isThere` asks the server. */
  constructor(timeout: number, isThere: () => Promise<boolean>) {
    this.#timeout = timeout
    this.#isThere = isThere
  }

  /** The server has answered. */
  contact(): void {
    this.#contact = performance.now()
    this.#backoff.reset()
  }

  /** Waits before the next attempt. False: the time is up. */
  async next(stop: AbortSignal): Promise<boolean> {
    if (performance.now() - this.#contact >= this.#timeout) {
      if (stop.aborted || !(await this.#isThere())) return false
      this.contact()
    }
    await this.#backoff.wait(stop)
    return true
  }
}
