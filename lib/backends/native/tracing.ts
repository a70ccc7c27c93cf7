/**
 * The tracing channels of node:diagnostics_channel: `nacre:exec`, `nacre:process` and `nacre:job`. docs/tracing.md
 * describes them.
 *
 * Each call publishes `start` and `end`, then `asyncStart` and `asyncEnd` when it has settled, and `error` when it
 * failed, with one context object for all of them, as `TracingChannel.tracePromise` does. Without a subscriber a call
 * costs one look at a property.
 */
import { type TracingChannel, tracingChannel } from 'node:diagnostics_channel'
import { envChanges } from '../../options/env.js'
import { readArgument } from '../../options/read.js'
import type { ProcessExit } from '../../public/index.js'

/** What subscribers get. `result` or `error` is there from `asyncStart` on. */
export interface TraceContext {
  command: string
  /** The arguments of a command that is no shell text. */
  argv: string[] | undefined
  /** The environment changes of the call. Subscribers of `start` may add variables. */
  env: Record<string, string | undefined>
  sessionId?: string
  processId?: string
  jobId?: string
  /** Of the session's shell or of the process, once it is known. */
  pid?: number
  /** Of a process that has started: how it ends. Never rejects. */
  ended?: Promise<ProcessExit>
  result?: unknown
  error?: unknown
}

/** The environment changes of a call, as they cross the boundary. */
interface EnvChanges {
  envNames?: string[] | undefined
  envValues?: Array<string | null> | undefined
}

type Channel = TracingChannel<unknown, TraceContext>

const channels = {
  exec: tracingChannel<unknown, TraceContext>('nacre:exec'),
  process: tracingChannel<unknown, TraceContext>('nacre:process'),
  job: tracingChannel<unknown, TraceContext>('nacre:job'),
}

/** Runs a call, and publishes it when something has subscribed; `run` then gets the context. */
export function traced<T>(
  kind: keyof typeof channels,
  about: () => Omit<TraceContext, 'env'> & { changes: EnvChanges },
  run: (context: TraceContext | undefined) => Promise<T>,
): Promise<T> {
  const channel = channels[kind]
  if (!isWatched(channel)) return run(undefined)
  const { changes, ...rest } = about()
  const context = { ...rest, env: envOf(changes) }
  return channel.tracePromise(() => run(context), context) as Promise<T>
}

/** The request with the variables that subscribers have added. What the caller gave stays. Throws OptionError. */
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

/** Older runtimes have the property on the single channels only. */
function isWatched({ start, end, asyncStart, asyncEnd, error }: Channel): boolean {
  return [start, end, asyncStart, asyncEnd, error].some((one) => one.hasSubscribers)
}
