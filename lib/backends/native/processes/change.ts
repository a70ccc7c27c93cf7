/** Announces state changes to the callers that wait for them. */
import { orAborted } from '../../../base/abort.js'

export class Change {
  #announce = () => {}
  #next: Promise<void> = this.#prepare()

  announce(): void {
    this.#announce()
    this.#next = this.#prepare()
  }

  /** Resolves at the next change, or when `stop` is aborted. */
  async wait(stop: AbortSignal): Promise<void> {
    if (!stop.aborted) await orAborted(this.#next, stop)
  }

  #prepare(): Promise<void> {
    return new Promise((resolve) => {
      this.#announce = resolve
    })
  }
}
