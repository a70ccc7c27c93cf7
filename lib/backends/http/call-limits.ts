/**
 * What ends a call before its reply: the caller's signal, the end of the client, and the time limit.
 */

import { onAbort } from '../../base/abort.js'
import { clearTimeout, performance, setTimeout } from '../../base/timers.js'

export class CallLimits {
  readonly #stop = new AbortController()
  readonly #ignore: () => void
  readonly #deadline: number
  #timer: ReturnType<typeof setTimeout> | undefined
  #isLate = false

  /** `timeout` is in milliseconds and begins now; 0 = none. */
  constructor(signal: AbortSignal | undefined, timeout: number) {
    this.#ignore = onAbort(signal, () => this.stop())
    this.#deadline = timeout === 0 ? Number.POSITIVE_INFINITY : performance.now() + timeout
  }

  /** Aborted to end the call. */
  get signal(): AbortSignal {
    return this.#stop.signal
  }

  /** True when the time limit has ended the call. */
  get isLate(): boolean {
    return this.#isLate
  }

  /** Whether at least this much time is left. */
  allows(milliseconds: number): boolean {
    return performance.now() + milliseconds < this.#deadline
  }

  stop(): void {
    this.#stop.abort()
  }

  /** Waits for the reply to a request, within the time that is left. */
  async answer<T>(request: Promise<T>): Promise<T> {
    if (this.#deadline !== Number.POSITIVE_INFINITY) {
      this.#timer = setTimeout(
        () => {
          this.#isLate = true
          this.stop()
        },
        Math.max(0, this.#deadline - performance.now()),
      )
    }
    try {
      return await request
    } finally {
      clearTimeout(this.#timer)
    }
  }

  release(): void {
    this.#ignore()
  }
}
