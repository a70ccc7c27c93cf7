/**
 * The limits of every wait: the timeout and the AbortSignal.
 */

import { onAbort, refuseAborted } from './abort.js'
import { deferred } from './deferred.js'
import { AbortError } from './errors.js'
import { clearTimeout, setTimeout } from './timers.js'

/** When a wait ends early. */
export interface WaitLimits {
  /** Milliseconds, 0 = none. */
  timeout: number
  signal: AbortSignal | undefined
}

/**
 * Runs `work` until it settles, the time is up or the signal is aborted. Always aborts `stop` afterwards, so that no part
 * of it continues. After a timeout, `late` provides the outcome.
 */
export async function within<T>(
  { timeout, signal }: WaitLimits,
  work: (stop: AbortSignal) => Promise<T>,
  late: () => Promise<T>,
): Promise<T> {
  refuseAborted(signal, 'the wait')
  const stop = new AbortController()
  const limit = deferred<'late' | 'aborted'>()
  const timer = timeout > 0 ? setTimeout(() => limit.resolve('late'), timeout) : undefined
  const ignore = onAbort(signal, () => limit.resolve('aborted'))
  try {
    const first = await Promise.race([work(stop.signal).then((value) => ({ value })), limit.promise])
    if (first === 'aborted') throw new AbortError(signal?.reason, undefined, 'the wait')
    if (first === 'late') {
      stop.abort()
      return await late()
    }
    return first.value
  } finally {
    stop.abort()
    clearTimeout(timer)
    ignore()
  }
}

/** The value of a promise that is fulfilled in time, undefined when it is late. Rejects as the promise does. */
export async function inTime<T>(
  milliseconds: number,
  promise: Promise<T>,
): Promise<{ value: T } | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), Math.max(0, milliseconds))
  })
  try {
    return await Promise.race([promise.then((value) => ({ value })), late])
  } finally {
    clearTimeout(timer)
  }
}

/** Resolves after some milliseconds, or earlier when `stop` is aborted. */
export function pause(milliseconds: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer)
      release()
      resolve()
    }
    const timer = setTimeout(end, milliseconds)
    const release = onAbort(stop, end)
    if (stop.aborted) end()
  })
}
