/**
 * What every run on the server comes to: a result or an error, told to the callbacks first.
 */
import type { Encoding, ExecResult, Logger } from '../../index.js'
import type { ExecPlan } from '../options/exec.js'

export async function settle(
  { onComplete, onError }: ExecPlan['callbacks'],
  logger: Logger | undefined,
  perform: () => Promise<ExecResult<Encoding>>,
): Promise<ExecResult<Encoding>> {
  try {
    const result = await perform()
    onComplete?.(result)
    return result
  } catch (error) {
    try {
      onError?.(error)
    } catch (second) {
      logger?.warn(`onError threw: ${second}`)
    }
    throw error
  }
}
