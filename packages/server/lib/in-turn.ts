/**
 * Work that is done one at a time, in the order of the calls. Work that has begun cannot be taken back; a caller whose signal
 * is aborted before its turn is rejected, and its work is dropped.
 */
import { aborts } from 'nacre/internal'
export class InTurn {
  #last: Promise<void> = Promise.resolve()

  take(work: () => Promise<void>, signal: AbortSignal): Promise<void> {
    const before = this.#last
    const done = aborts.abortable(before, signal).then(work)
    // Without a value: each would hold the one before.
    this.#last = Promise.allSettled([before, done]).then(() => {})
    return done
  }

  /** Resolves when the work so far is done. */
  get idle(): Promise<void> {
    return this.#last
  }
}
