/** Makes a run that takes longer than its `detachAfter` a process. Its call then ends with the result so far. */
import { isCode } from '../../base/errors.js'

/** Milliseconds until the next attempt, when the command could not be detached. */
const RETRY_MS = 1000

export class DetachTimer<T> {
  readonly #detach: () => Promise<T>
  #timer: ReturnType<typeof setTimeout> | undefined
  #isStopped = false
  /** The last attempt. */
  #attempt: Promise<T | undefined> = Promise.resolve(undefined)

  constructor(detach: () => Promise<T>) {
    this.#detach = detach
  }

  /** To be called when the command starts to run. */
  start(ms: number): void {
    if (this.#isStopped) return
    this.#timer = setTimeout(() => {
      this.#attempt = this.#try()
      this.#attempt.catch(() => {})
    }, ms)
  }

  /** To be called when the run has ended, or is a process in another way. */
  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }

  /** The process that the command has become; undefined if it has not. Rejects if the process was lost meanwhile. */
  get process(): Promise<T | undefined> {
    return this.#attempt
  }

  async #try(): Promise<T | undefined> {
    try {
      return await this.#detach()
    } catch (error) {
      if (!isCode(error, 'DETACH_FAILED')) throw error
      this.start(RETRY_MS)
      return undefined
    }
  }
}
