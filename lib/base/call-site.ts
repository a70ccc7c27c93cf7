/**
 * The line of the caller's program in the stacks of errors.
 *
 * A call settles long after it was made, so the stack of its error has frames of nacre only. The frames are therefore
 * recorded at the call. Their text is made only for an error.
 */
import { AbortError, SandboxError } from './errors.js'

export type CallSite = { stack?: string }

// biome-ignore lint/complexity/noBannedTypes: any function can be the first frame to omit.
type AnyFunction = Function

/** Records the stack below `call`, which is the function that the caller called. */
export function callSite(call: AnyFunction): CallSite {
  const site: CallSite = {}
  // Not in every browser.
  Error.captureStackTrace?.(site, call)
  return site
}

/** Shows the caller's frames in the stack of an error. */
export function locate(error: unknown, { stack = '' }: CallSite): void {
  const frames = stack.indexOf('\n    at ')
  if (frames === -1 || !(error instanceof SandboxError || error instanceof AbortError)) return
  Object.defineProperty(error, 'stack', { value: `${error.name}: ${error.message}${stack.slice(frames)}` })
}

/** Settles like `pending`, with the caller of `call` in the stack of an error. Call it synchronously in `call`. */
export async function calledBy<T>(call: AnyFunction, pending: Promise<T>): Promise<T> {
  const site = callSite(call)
  try {
    return await pending
  } catch (error) {
    locate(error, site)
    throw error
  }
}
