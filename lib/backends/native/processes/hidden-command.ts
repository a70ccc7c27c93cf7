/**
 * Runs the command of a health check. It is a separate, unlisted process, so it does not wait for a command of its session.
 */

import { onAbort } from '../../../base/abort.js'
import { os } from '../../../base/builtin.js'
import type { Engine } from '../engine.js'
import { freshProcessId, type ProcessPlan } from '../plan/process.js'
import { launch } from './launch.js'

/** Time limit of one attempt. */
export const ATTEMPT_MS = 10_000

/** The command, and the directory and environment it runs in. */
export type HiddenCommand = Pick<
  ProcessPlan['request'],
  'sessionId' | 'cwd' | 'envNames' | 'envValues' | 'text' | 'argv' | 'command'
>

/** Whether the command exits with 0. False if `stop` is aborted first. */
export async function succeedsHidden(
  engine: Engine,
  command: HiddenCommand,
  stop: AbortSignal,
): Promise<boolean> {
  const kill = { signal: os.constants.signals.SIGKILL, forceKillAfterDelay: 0 }
  const request: ProcessPlan['request'] = {
    ...command,
    processId: `check-${freshProcessId()}`,
    timeout: ATTEMPT_MS,
    killSignal: kill.signal,
    forceKillAfterDelay: kill.forceKillAfterDelay,
    input: 'none',
    ipc: false,
    mergeOutput: false,
    logLimit: 0,
    autoCleanup: true,
    hidden: true,
  }
  const handle = await launch(engine, { request, source: undefined })
  const end = () => void handle.kill(kill).catch(() => {})
  const release = onAbort(stop, end)
  try {
    if (stop.aborted) end()
    return (await handle.wait()).exitCode === 0
  } finally {
    release()
    engine.ask((native) => native.forgetProcesses([handle.id]))
  }
}
