/** Starts a process in this process's engine. */
import { engineError } from '../../../base/errors.js'
import type { Engine } from '../engine.js'
import type { ProcessPlan } from '../plan/process.js'
import { traced, withTracedEnv } from '../tracing.js'
import { exitOf, ProcessHandle } from './handle.js'

/** Starts the process and resolves once it runs. */
export async function launch(engine: Engine, plan: ProcessPlan): Promise<ProcessHandle> {
  let handle: ProcessHandle | undefined
  const { command, argv, sessionId, processId } = plan.request
  const about = () => ({ command, argv, sessionId, processId, changes: plan.request })
  await traced('process', about, async (context) => {
    handle = await launchNow(engine, { ...plan, request: withTracedEnv(plan.request, context) })
    if (context !== undefined) {
      context.pid = handle.state.pid
      context.ended = handle.ended.then(exitOf)
    }
  })
  // Not returned by the traced call: its result is visible to subscribers.
  return handle as unknown as ProcessHandle
}

function launchNow(engine: Engine, plan: ProcessPlan): Promise<ProcessHandle> {
  return new Promise((resolve, reject) => {
    engine.begin(
      (native, id) => native.startProcess(id, plan.request),
      (event) => {
        if (event.kind === 'error') reject(engineError(event.code, event.message))
        else resolve(new ProcessHandle(engine, event.value, plan))
      },
    )
  })
}
