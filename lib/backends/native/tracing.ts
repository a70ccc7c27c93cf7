/**
 * The tracing channels of node:diagnostics_channel: `nacre:exec`, `nacre:process` and `nacre:job`, `nacre:request` for requests
 * of commands, and for queues `nacre:queue` and `nacre:attempt`. docs/tracing.md describes them.
 *
 * Each call publishes `start` and `end`, then `asyncStart` and `asyncEnd` when it has settled, and `error` when it
 * failed, all with one context object, as `TracingChannel.tracePromise` does. Without a subscriber, a call costs a few
 * property reads.
 */
import type { TracingChannel } from 'node:diagnostics_channel'
import { diagnosticsChannel } from '../../base/builtin.js'
import type { NativeTracedRequest } from '../../boundary/index.js'
import type { ProcessExit } from '../../calls/index.js'
import { envChanges } from '../../schema/env.js'
import { readArgument } from '../../schema/read.js'

const { tracingChannel } = diagnosticsChannel

/** What subscribers receive. `result` or `error` is set from `asyncStart` on. */
export interface TraceContext {
  command: string
  /** The arguments of a command without a shell. */
  argv: string[] | undefined
  /** The environment changes of the call. Subscribers of `start` may add variables. */
  env: Record<string, string | undefined>
  /** The id of a sandbox of a fleet. */
  sandboxId?: string
  sessionId?: string
  processId?: string
  jobId?: string
  /** The name of the queue and the id of its job; for an attempt, also its number and the id of the host. */
  queue?: string
  queueJobId?: string
  attempt?: number
  host?: string
  /** For an attempt: TRACEPARENT and TRACESTATE from when the job was added to the queue. */
  parent?: Record<string, string>
  /** The pid of the session's shell or of the process, once it is known. */
  pid?: number
  /** Resolves when a started process ends. Never rejects. */
  ended?: Promise<ProcessExit>
  result?: unknown
  error?: unknown
}

/** The environment changes of a call, in the form that crosses the boundary. */
interface EnvChanges {
  envNames?: string[] | undefined
  envValues?: Array<string | null> | undefined
}

/** What subscribers of `nacre:request` receive. `result` is set from `asyncStart` on. */
export interface RequestContext extends NativeTracedRequest {
  /** The context of its command on `nacre:exec`. */
  call: TraceContext
  result?: RequestEnd
}

/** How a request ended. */
export interface RequestEnd {
  /** Null: before a reply. */
  status: number | null
  /** Why it was refused. */
  denied?: 'rule' | 'host'
}

type Channel = TracingChannel<unknown, TraceContext>

const channels = {
  exec: tracingChannel<unknown, TraceContext>('nacre:exec'),
  process: tracingChannel<unknown, TraceContext>('nacre:process'),
  job: tracingChannel<unknown, TraceContext>('nacre:job'),
  queue: tracingChannel<unknown, TraceContext>('nacre:queue'),
  attempt: tracingChannel<unknown, TraceContext>('nacre:attempt'),
}

const requests = tracingChannel<unknown, RequestContext>('nacre:request')

/** Whether requests of commands are to be published. */
export function areRequestsWatched(): boolean {
  return isWatched(requests)
}

/** Publishes a request until its end, with which the promise resolves. */
export function publishRequest(context: RequestContext, end: Promise<RequestEnd>): void {
  void requests.tracePromise(() => end, context)
}

/** Runs a call and publishes it if there are subscribers; `run` then receives the context. */
export function traced<T>(
  kind: keyof typeof channels,
  about: () => Omit<TraceContext, 'env'> & { changes: EnvChanges },
  run: (context: TraceContext | undefined) => Promise<T>,
): Promise<T> {
  const channel = channels[kind]
  if (!isWatched(channel) && !(kind === 'exec' && areRequestsWatched())) return run(undefined)
  const { changes, ...rest } = about()
  const context = { ...rest, env: envOf(changes) }
  return channel.tracePromise(() => run(context), context) as Promise<T>
}

/** The request with the variables that subscribers added. The caller's variables take precedence. Throws OptionError. */
export function withTracedEnv<T extends EnvChanges>(request: T, context: TraceContext | undefined): T {
  if (context === undefined) return request
  const { names, values } = readArgument(envChanges, context.env, 'env of the tracing context')
  const given = new Set(request.envNames)
  const added = names.flatMap((name, at) => (given.has(name) ? [] : [[name, values[at] ?? null] as const]))
  if (added.length === 0) return request
  return {
    ...request,
    envNames: [...(request.envNames ?? []), ...added.map(([name]) => name)],
    envValues: [...(request.envValues ?? []), ...added.map(([, value]) => value)],
  }
}

function envOf({ envNames = [], envValues = [] }: EnvChanges): TraceContext['env'] {
  return Object.fromEntries(envNames.map((name, at) => [name, envValues[at] ?? undefined]))
}

/** Whether a channel has subscribers. Older runtimes have this property only on the single channels. */
function isWatched({ start, end, asyncStart, asyncEnd, error }: typeof requests | Channel): boolean {
  return [start, end, asyncStart, asyncEnd, error].some((one) => one.hasSubscribers)
}
