/**
 * AbortSignal for calls: checked before anything runs, watched while it runs, always released.
 */
import { deferred } from './deferred.js'
import { AbortError } from './errors.js'

/** Throws an AbortError if the signal is already aborted. `subject` names the call in the message. */
export function refuseAborted(signal: AbortSignal | undefined, subject?: string): void {
  if (signal?.aborted) throw new AbortError(signal.reason, undefined, subject)
}

/** The listener of each signal. */
const shared = new WeakMap<AbortSignal, SharedListener>()

/** Calls `stop`, which must not throw, when the signal is aborted. Returns the function that removes it. */
export function onAbort(signal: AbortSignal | undefined, stop: () => void): () => void {
  if (signal === undefined) return () => {}
  const listener = shared.get(signal) ?? new SharedListener(signal)
  shared.set(signal, listener)
  return listener.add(stop)
}

/** Settles like the promise, or resolves when the signal is aborted first. */
export async function orAborted(promise: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  await unlessAborted(promise, signal)
}

/**
 * Settles like the promise, or rejects with an AbortError if the signal is aborted first. `subject` names the call in the
 * message.
 */
export async function abortable<T>(
  promise: Promise<T>,
  signal: AbortSignal | undefined,
  subject?: string,
): Promise<T> {
  const settled = await unlessAborted(promise, signal)
  if (settled === undefined) throw new AbortError(signal?.reason, undefined, subject)
  return settled.value
}

/** Resolves to undefined if the signal is aborted first. A later rejection of the promise counts as handled. */
async function unlessAborted<T>(
  promise: Promise<T>,
  signal: AbortSignal | undefined,
): Promise<{ value: T } | undefined> {
  if (signal === undefined) return { value: await promise }
  const aborted = deferred<undefined>()
  const release = onAbort(signal, () => aborted.resolve(undefined))
  if (signal.aborted) aborted.resolve(undefined)
  try {
    return await Promise.race([aborted.promise, promise.then((value) => ({ value }))])
  } finally {
    release()
  }
}

/** One listener for all calls with the same signal: Node warns of a leak at the eleventh listener. */
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
    // A new function each time, since the same `stop` may be registered twice.
    const stop = () => given()
    if (this.#stops.size === 0) this.#signal.addEventListener('abort', this.#stopAll, { once: true })
    this.#stops.add(stop)
    return () => {
      if (this.#stops.delete(stop) && this.#stops.size === 0)
        this.#signal.removeEventListener('abort', this.#stopAll)
    }
  }
}
