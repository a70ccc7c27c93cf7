/** Announces changes of a state to those that wait for one. */
import { onAbort } from '../../../base/abort.js'

export class Change {
  #announce = () => {}
  #next: Promise<void> = this.#prepare()

  announce(): void {
    this.#announce()
    this.#next = this.#prepare()
  }

  /** Resolves at the next change, or when `stop` is aborted. */
  async wait(stop: AbortSignal): Promise<void> {
    if (stop.aborted) return
    let release = () => {}
    const stopped = new Promise<void>((resolve) => {
      release = onAbort(stop, resolve)
    })
    await Promise.race([this.#next, stopped])
    release()
  }

  #prepare(): Promise<void> {
    return new Promise((resolve) => {
      this.#announce = resolve
    })
  }
}
