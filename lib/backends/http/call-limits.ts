/**
 * What ends a call before its reply: the caller, the end of the client, and the time in which it must be answered.
 */
import { onAbort } from '../../base/abort.js'

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

  /** Aborted when the call is to end. */
  get signal(): AbortSignal {
    return this.#stop.signal
  }

  /** Whether the time was over before the server answered. */
  get isLate(): boolean {
    return this.#isLate
  }

  /** Whether there is so much time left, in milliseconds. */
  allows(milliseconds: number): boolean {
    return performance.now() + milliseconds < this.#deadline
  }

  stop(): void {
    this.#stop.abort()
  }

  /** Waits for the answer to a request, in the time that is left. */
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
