/**
 * What every run on the server comes to: a result or an error, told to the callbacks first.
 */

import type { ExecPlan } from '../../options/exec.js'
import type { Encoding, ExecResult, Logger } from '../../public/index.js'
import { announce } from '../../run/verbose.js'

export async function settle(
  {
    callbacks: { onComplete, onError },
    command,
    verbose,
  }: Pick<ExecPlan, 'callbacks' | 'command' | 'verbose'>,
  logger: Logger | undefined,
  perform: () => Promise<ExecResult<Encoding>>,
): Promise<ExecResult<Encoding>> {
  const printEnd = verbose ? announce(command) : undefined
  try {
    const result = await perform()
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
