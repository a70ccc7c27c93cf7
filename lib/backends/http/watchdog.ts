/**
 * Notices that the server of a pending request cannot be reached any more, when its connection has silently died.
 *
 * A partition sends nothing, and a command may be silent for hours. So the server is asked from time to time whether it is
 * still there. When it does not answer, the request is cut, and the call decides whether to repeat it.
 */

import { onAbort } from '../../base/abort.js'
import { clearTimeout, setTimeout } from '../../base/timers.js'
import { connectionError } from './failure.js'

/** Milliseconds between two questions. */
const SHORTEST_INTERVAL_MS = 1000
const LONGEST_INTERVAL_MS = 20_000

export class Watchdog {
  readonly #cut = new AbortController()
  readonly #isThere: (limit: AbortSignal) => Promise<boolean>
  readonly #interval: number
  readonly #ignore: () => void
  #timer: ReturnType<typeof setTimeout> | undefined
  #isOver = false

  /** `stop` ends the request, too. `patience` is in milliseconds. `isThere` asks the server until `limit` is aborted. */
  constructor(stop: AbortSignal, patience: number, isThere: (limit: AbortSignal) => Promise<boolean>) {
    this.#ignore = onAbort(stop, () => this.#cut.abort(stop.reason))
    if (stop.aborted) this.#cut.abort(stop.reason)
    this.#interval = Math.min(Math.max(patience, SHORTEST_INTERVAL_MS), LONGEST_INTERVAL_MS)
    this.#isThere = isThere
    this.#schedule()
  }

  /** Aborted when the server does not answer, or the request is to end. */
  get signal(): AbortSignal {
    return this.#cut.signal
  }

  end(): void {
    this.#isOver = true
    clearTimeout(this.#timer)
    this.#ignore()
  }

  #schedule(): void {
    this.#timer = setTimeout(() => void this.#ask(), this.#interval)
  }

  async #ask(): Promise<void> {
    const isThere = await this.#isThere(AbortSignal.timeout(this.#interval))
    if (this.#isOver) return
    if (isThere) this.#schedule()
    else this.#cut.abort(connectionError('the server does not answer any more'))
  }
}
