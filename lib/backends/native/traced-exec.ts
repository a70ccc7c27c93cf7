/** Publishes a command on the tracing channel `nacre:exec`. */
import type { ExecRequest } from '../../requests/exec.js'
import type { Result } from '../../run/run.js'
import { type TraceContext, traced, withTracedEnv } from './tracing.js'

/**
 * Runs a command with tracing. `perform` receives the final request, since subscribers may add variables. `sandboxId` is
 * set for a sandbox of a fleet.
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
  // Async only if there are subscribers: a turn of the promise queue costs as much as a short command.
  return traced('exec', about, (context) =>
    context === undefined ? perform(request) : performTraced(request, context, perform),
  )
}

/** Rejects, rather than throws, for a bad variable of a subscriber, so that the channel publishes the error. */
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
