/** Starts a process in this process's engine. */
import { engineError } from '../../../base/errors.js'
import type { Engine } from '../engine.js'
import type { ProcessPlan } from '../plan/process.js'
import { traced } from '../tracing.js'
import { ProcessHandle } from './handle.js'

/** Resolves when it runs. */
export function launch(engine: Engine, plan: ProcessPlan): Promise<ProcessHandle> {
  const { command, sessionId, processId } = plan.request
  return traced(
    'process',
    () => ({ command, sessionId, processId }),
    () => launchNow(engine, plan),
  )
}

function launchNow(engine: Engine, plan: ProcessPlan): Promise<ProcessHandle> {
  return new Promise((resolve, reject) => {
    engine.begin(
      (native, id) => native.startProcess(id, plan.request),
      ({ code, message, process }) => {
        if (process === undefined) reject(engineError(code, message))
        else resolve(new ProcessHandle(engine, process, plan))
      },
    )
  })
}
