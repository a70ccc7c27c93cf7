/**
 * AbortSignal for calls: checked before anything runs, listened to while it runs, let go of always.
 */
import { AbortError } from './errors.js'

/** Throws an AbortError when the signal is aborted already. `subject` is what it was for, for the message. */
export function refuseAborted(signal: AbortSignal | undefined, subject?: string): void {
  if (signal?.aborted) throw new AbortError(signal.reason, undefined, subject)
}

/** Calls `stop` when the signal is aborted. Returns the function that removes the listener. */
export function onAbort(signal: AbortSignal | undefined, stop: () => void): () => void {
  signal?.addEventListener('abort', stop, { once: true })
  return () => signal?.removeEventListener('abort', stop)
}
