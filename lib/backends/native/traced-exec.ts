/** A command as the channel `nacre:exec` publishes it. */
import type { ExecRequest } from '../../requests/exec.js'
import type { Result } from '../../run/run.js'
import { type TraceContext, traced, withTracedEnv } from './tracing.js'

/**
 * `perform` gets the request that is to be run: subscribers may have added variables. `sandboxId` is that of a sandbox of a
 * fleet.
 */
export function tracedExec(
  request: ExecRequest,
  perform: (request: ExecRequest) => Promise<Result>,
  sandboxId?: string,
): Promise<Result> {
  const { shown, sessionId, command } = request
  const about = () => ({
    ...{ command: shown, argv: command.argv, sessionId, changes: changesOf(request) },
    ...(sandboxId !== undefined && { sandboxId }),
  })
  // Async only for subscribers: a turn of the promise queue costs as much as a short command.
  return traced('exec', about, (context) =>
    context === undefined ? perform(request) : performTraced(request, context, perform),
  )
}

/** A bad variable of a subscriber is a rejection, which the channel publishes. */
async function performTraced(
  request: ExecRequest,
  context: TraceContext,
  perform: (request: ExecRequest) => Promise<Result>,
): Promise<Result> {
  const { envNames: names = [], envValues = [] } = withTracedEnv(changesOf(request), context)
  const onPid = (pid: number) => {
    context.pid = pid
  }
  return perform({ ...request, onPid, values: { ...request.values, env: { names, values: envValues } } })
}

function changesOf({ values: { env } }: ExecRequest) {
  return { envNames: env?.names, envValues: env?.values }
}
