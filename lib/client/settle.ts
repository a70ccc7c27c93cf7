/**
 * What every run on the server comes to: a result or an error, told to the callbacks first.
 */
import type { Encoding, ExecResult, Logger } from '../../index.js'
import { AbortError, SandboxError } from '../errors.js'
import { type LineForm, toLines } from '../line-arrays.js'
import type { ExecPlan } from '../options/exec.js'
import { announce } from '../verbose.js'

export async function settle(
  {
    callbacks: { onComplete, onError },
    command,
    lines,
    verbose,
  }: Pick<ExecPlan, 'callbacks' | 'command' | 'lines' | 'verbose'>,
  logger: Logger | undefined,
  perform: () => Promise<ExecResult<Encoding>>,
): Promise<ExecResult<Encoding>> {
  const printEnd = verbose ? announce(command) : undefined
  try {
    const result = await lined(perform, lines)
    printEnd?.({ result })
    onComplete?.(result)
    return result
  } catch (error) {
    printEnd?.({ error })
    try {
      onError?.(error)
    } catch (second) {
      logger?.warn(`onError threw: ${second}`)
    }
    throw error
  }
}

/** The result of a run, or the one that its error holds, with lines where they are wanted. */
async function lined(
  perform: () => Promise<ExecResult<Encoding>>,
  form: LineForm | undefined,
): Promise<ExecResult<Encoding>> {
  if (form === undefined) return perform()
  try {
    const result = await perform()
    toLines(result, form)
    return result
  } catch (error) {
    if (error instanceof AbortError || error instanceof SandboxError)
      if (error.result !== undefined) toLines(error.result, form)
    throw error
  }
}
