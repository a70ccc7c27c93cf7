/**
 * What every run comes to: a result or an error, printed where that is wanted, and passed to the callbacks first.
 */
import { report } from '../base/report.js'
import type { Logger } from '../public/index.js'
import type { ExecRequest } from '../requests/exec.js'
import type { Result } from './run.js'
import { announce } from './verbose.js'

/** Rejects with the first error; one of onError itself goes to the logger. */
export async function settle(
  { shown, verbose, callbacks }: ExecRequest,
  logger: Logger | undefined,
  perform: () => Promise<Result>,
): Promise<Result> {
  const printEnd = verbose ? announce(shown) : undefined
  try {
    const result = await perform()
    printEnd?.({ result })
    callbacks.onComplete?.(result)
    return result
  } catch (error) {
    printEnd?.({ error })
    callError(callbacks, logger, error)
    throw error
  }
}

/** Calls onError, whose own errors go to the logger. */
export function callError(
  { onError }: { onError?: ((error: unknown) => unknown) | undefined },
  logger: Logger | undefined,
  error: unknown,
): void {
  try {
    onError?.(error)
  } catch (second) {
    report(logger, 'warn', `onError threw: ${second}`)
  }
}
