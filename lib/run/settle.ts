/**
 * Ends every run: prints it with `verbose`, calls onComplete or onError, then settles the promise.
 */
import { locate } from '../base/call-site.js'
import { report } from '../base/report.js'
import type { Logger } from '../calls/index.js'
import type { ExecRequest, LineForm } from '../requests/exec.js'
import { toLines } from './line-arrays.js'
import type { Result } from './run.js'
import { announce } from './verbose.js'

/** Rejects with the first error. Exceptions of onError itself go to the logger. */
export async function settle(
  { shown, verbose, lines, callbacks, site }: ExecRequest,
  logger: Logger | undefined,
  perform: () => Promise<Result>,
): Promise<Result> {
  const printEnd = verbose ? announce(shown) : undefined
  try {
    const result = await (lines === undefined ? perform() : lined(perform, lines))
    printEnd?.({ result })
    callbacks.onComplete?.(result)
    return result
  } catch (error) {
    locate(error, site)
    printEnd?.({ error })
    callError(callbacks, logger, error)
    throw error
  }
}

/** Converts the result of a run, or of its error, to arrays of lines. */
async function lined(perform: () => Promise<Result>, form: LineForm): Promise<Result> {
  try {
    const result = await perform()
    toLines(result, form)
    return result
  } catch (error) {
    const result = resultOf(error)
    if (result !== undefined) toLines(result, form)
    throw error
  }
}

/** Calls onError; its own exceptions go to the logger. */
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

/** The result so far of a run that has failed. */
export function resultOf(error: unknown): Result | undefined {
  return Object.hasOwn(Object(error), 'result') ? (error as { result?: Result }).result : undefined
}
