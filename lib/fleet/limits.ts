/** Waiting within the limits of a call of a fleet. */
import { onAbort } from '../base/abort.js'
import { AbortError } from '../base/errors.js'

/** Rejects with the reason when the signal is aborted first. */
export async function orStopped<T>(promise: Promise<T>, stop: AbortSignal): Promise<T> {
  let release = () => {}
  const stopped = new Promise<never>((_, reject) => {
    const refuse = () => reject(new AbortError(stop.reason, undefined, 'the call'))
    if (stop.aborted) refuse()
    else release = onAbort(stop, refuse)
  })
  promise.catch(() => {})
  try {
    return await Promise.race([promise, stopped])
  } finally {
    release()
  }
}
