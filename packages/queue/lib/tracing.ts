/** The trace context of a job: from its addition, through Redis, into the environment of its command. */
import { kinds, traced } from 'nacre/internal'
import type { JobRequest } from './data.js'
import type { AttemptRef } from './keys.js'

/** Publishes the addition of a job on `nacre:queue`. `add` receives the variables that subscribers have set. */
export function traceAdd<T>(
  about: { command: unknown; queue: string; queueJobId: string },
  add: (trace: Record<string, string>) => Promise<T>,
): Promise<T> {
  const { command, ...rest } = about
  return traced(
    'queue',
    () => ({ ...shown(command), ...rest, changes: {} }),
    (context) => add(traceOf(context?.env ?? {})),
  )
}

/** Publishes an attempt on `nacre:attempt`, with the trace context of the addition as its parent. */
export function traceRun<T>(
  attempt: { ref: AttemptRef; jobId: string; host: string; queue: string },
  request: JobRequest | undefined,
  run: (request: JobRequest | undefined) => Promise<T>,
): Promise<T> {
  if (request === undefined) return run(undefined)
  const { ref, jobId, host, queue } = attempt
  const about = { jobId, queue, host, queueJobId: ref.id, attempt: ref.attempt, parent: request.trace ?? {} }
  return traced(
    'attempt',
    () => ({ ...shown(request.start.command), ...about, changes: {} }),
    (context) => run({ ...request, trace: { ...request.trace, ...traceOf(context?.env ?? {}) } }),
  )
}

function shown(command: unknown): { command: string; argv: string[] | undefined } {
  const checked = kinds.readArgument(kinds.readCommand, command, 'command')
  return { command: kinds.showCommand(checked), argv: checked.argv }
}

function traceOf({ TRACEPARENT, TRACESTATE }: Record<string, string | undefined>): Record<string, string> {
  return { ...(TRACEPARENT && { TRACEPARENT }), ...(TRACESTATE && { TRACESTATE }) }
}
