/** Makes a run that takes longer than its `detachAfter` a process. Its call then ends with the result so far. */

import { isCode } from '../../base/errors.js'
import { clearTimeout, setTimeout } from '../../base/timers.js'

/** Milliseconds until the next attempt, when the command could not be detached. */
const RETRY_MS = 1000

export class DetachTimer<T> {
  readonly #detach: () => Promise<T>
  #timer: ReturnType<typeof setTimeout> | undefined
  #isStopped = false
  /** Its last attempt. */
  #attempt: Promise<T | undefined> = Promise.resolve(undefined)
  /** The last attempt of the caller. A command can only be detached once, so the two never try at the same time. */
  #byHand: Promise<unknown> = Promise.resolve()

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

  /** Detaches the command with `detach` for the caller, unless that has happened because of its time. */
  async detach(detach: () => Promise<T>): Promise<T> {
    const already = await this.#attempt
    if (already !== undefined) return already
    const detached = detach()
    this.#byHand = detached.then(
      () => this.stop(),
      () => {},
    )
    return detached
  }

  /** To be called when the run has ended. */
  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }

  /**
   * The process that the command has become because of its time; undefined if it has not. Rejects if the process was lost
   * meanwhile.
   */
  get process(): Promise<T | undefined> {
    return this.#attempt
  }

  async #try(): Promise<T | undefined> {
    await this.#byHand
    if (this.#isStopped) return undefined
    try {
      return await this.#detach()
    } catch (error) {
      if (!isCode(error, 'DETACH_FAILED')) throw error
      this.start(RETRY_MS)
      return undefined
    }
  }
}
