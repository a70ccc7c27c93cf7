/**
 * AbortSignal for calls: checked before anything runs, listened to while it runs, always released.
 */
import { AbortError } from './errors.js'

/** Throws an AbortError when the signal is aborted already. `subject` is what it was for, for the message. */
export function refuseAborted(signal: AbortSignal | undefined, subject?: string): void {
  if (signal?.aborted) throw new AbortError(signal.reason, undefined, subject)
}

/** What each signal stops. */
const shared = new WeakMap<AbortSignal, SharedListener>()

/** Calls `stop`, which must not throw, when the signal is aborted. Returns the function that takes that back. */
export function onAbort(signal: AbortSignal | undefined, stop: () => void): () => void {
  if (signal === undefined) return () => {}
  const listener = shared.get(signal) ?? new SharedListener(signal)
  shared.set(signal, listener)
  return listener.add(stop)
}

/** Resolves when the promise does, or when the signal is aborted. */
export async function orAborted(promise: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  let release = () => {}
  const aborted = new Promise<void>((resolve) => {
    release = onAbort(signal, resolve)
  })
  await Promise.race([promise, aborted])
  release()
}

/** One listener for all calls with the same signal: at the eleventh of its own, Node warns of a leak. */
class SharedListener {
  readonly #signal: AbortSignal
  readonly #stops = new Set<() => void>()
  readonly #stopAll = () => {
    for (const stop of [...this.#stops]) if (this.#stops.delete(stop)) stop()
  }

  constructor(signal: AbortSignal) {
    this.#signal = signal
  }

  add(given: () => void): () => void {
    // Its own function, as the same one may be given twice.
    const stop = () => given()
    if (this.#stops.size === 0) this.#signal.addEventListener('abort', this.#stopAll, { once: true })
    this.#stops.add(stop)
    return () => {
      if (this.#stops.delete(stop) && this.#stops.size === 0)
        this.#signal.removeEventListener('abort', this.#stopAll)
    }
  }
}
