/** A command as the channel `nacre:exec` publishes it. */
import type { ExecRequest } from '../../requests/exec.js'
import type { Result } from '../../run/run.js'
import { traced, withTracedEnv } from './tracing.js'

/** `perform` gets the request that is to be run: subscribers may have added variables. */
export function tracedExec(
  request: ExecRequest,
  perform: (request: ExecRequest) => Promise<Result>,
): Promise<Result> {
  const { shown, sessionId, command, values } = request
  const changes = { envNames: values.env?.names, envValues: values.env?.values }
  const about = () => ({ command: shown, argv: command.argv, sessionId, changes })
  return traced('exec', about, (context) => {
    if (context === undefined) return perform(request)
    const { envNames: names = [], envValues = [] } = withTracedEnv(changes, context)
    const onPid = (pid: number) => {
      context.pid = pid
    }
    return perform({ ...request, onPid, values: { ...values, env: { names, values: envValues } } })
  })
}
