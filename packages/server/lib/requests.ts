/**
 * The number of active requests, from their headers to the last byte of their response.
 */
import { Refusal } from './failure.js'

export class Requests {
  readonly #most: number
  #active = 0
  #idle: Array<() => void> = []

  constructor(most: number) {
    this.#most = most
  }

  get active(): number {
    return this.#active
  }

  /** Counts a request until the returned function is called. Throws when there are too many. */
  enter(): () => void {
    if (this.#active >= this.#most)
      throw new Refusal('OVERLOADED', `the server has ${this.#most} requests already; try again`)
    this.#active++
    let isIn = true
    return () => {
      if (!isIn) return
      isIn = false
      if (--this.#active === 0) for (const resolve of this.#idle.splice(0)) resolve()
    }
  }

  /** Resolves when no request is active. */
  idle(): Promise<void> {
    return this.#active === 0 ? Promise.resolve() : new Promise((resolve) => this.#idle.push(resolve))
  }
}
