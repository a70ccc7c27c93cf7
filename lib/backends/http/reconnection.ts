/**
 * The attempts of a stream to reach its server again after its connection broke. They end `reconnectTimeout` after the first
 * failure without contact.
 */
import { performance } from '../../base/timers.js'
import type { Connection } from './connection.js'
import { reconnectBackoff } from './repeat.js'

export class Reconnection {
  readonly #connection: Connection
  readonly #backoff = reconnectBackoff()
  #deadline: number | undefined

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /** The server has answered. */
  contact(): void {
    this.#deadline = undefined
  }

  /** Waits before the next attempt. Throws the final error when the time is up. */
  async wait(error: unknown, stop: AbortSignal): Promise<void> {
    this.#deadline ??= performance.now() + this.#connection.reconnectTimeout
    if (performance.now() >= this.#deadline) throw await this.#connection.final(error)
    await this.#backoff.wait(stop)
  }
}
