/** Announces state changes to the callers that wait for them. */
import { orAborted } from '../../../base/abort.js'
import { deferred } from '../../../base/deferred.js'

export class Change {
  #next = deferred()

  announce(): void {
    this.#next.resolve()
    this.#next = deferred()
  }

  /** Resolves at the next change, or when `stop` is aborted. */
  async wait(stop: AbortSignal): Promise<void> {
    if (!stop.aborted) await orAborted(this.#next.promise, stop)
  }
}
