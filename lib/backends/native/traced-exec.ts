/** Publishes a command on the tracing channel `nacre:exec`. */
import type { CommandTrace, ExecRequest } from '../../requests/exec.js'
import type { Result } from '../../run/run.js'
import type { TracedRequests } from './traced-requests.js'
import { areRequestsWatched, type TraceContext, traced, withTracedEnv } from './tracing.js'

/**
 * Runs a command with tracing. `perform` receives the final request, since subscribers may add variables. `sandboxId` is
 * set for a sandbox of a fleet, `requests` for one of this program.
 */
export function tracedExec(
  request: ExecRequest,
  perform: (request: ExecRequest) => Promise<Result>,
  sandboxId?: string,
  requests?: TracedRequests,
): Promise<Result> {
  const { shown, sessionId, command } = request
  const about = () => ({
    ...{ command: shown, argv: command.argv, sessionId, changes: changesOf(request) },
    ...(sandboxId !== undefined && { sandboxId }),
  })
  // Async only if there are subscribers: a turn of the promise queue costs as much as a short command.
  return traced('exec', about, (context) =>
    context === undefined ? perform(request) : performTraced(request, context, perform, requests),
  )
}

/** Rejects, rather than throws, for a bad variable of a subscriber, so that the channel publishes the error. */
async function performTraced(
  request: ExecRequest,
  context: TraceContext,
  perform: (request: ExecRequest) => Promise<Result>,
  requests: TracedRequests | undefined,
): Promise<Result> {
  const { envNames: names = [], envValues = [] } = withTracedEnv(changesOf(request), context)
  let forget: (() => void) | undefined
  const trace: CommandTrace = {
    hasRequests: requests !== undefined && areRequestsWatched(),
    begin(id) {
      forget = requests?.add(id, context)
    },
    end(pid) {
      forget?.()
      if (pid !== undefined) context.pid = pid
    },
  }
  return perform({ ...request, trace, values: { ...request.values, env: { names, values: envValues } } })
}

function changesOf({ values: { env } }: ExecRequest) {
  return { envNames: env?.names, envValues: env?.values }
}
