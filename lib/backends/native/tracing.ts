/**
 * The tracing channels of node:diagnostics_channel: `nacre:exec`, `nacre:process` and `nacre:job`.
 *
 * Each call publishes `start` and `end`, then `asyncStart` and `asyncEnd` when it has settled, and `error` when it
 * failed, with one context object for all of them, as `TracingChannel.tracePromise` does. Without a subscriber a call
 * costs one look at a property.
 */
import { type TracingChannel, tracingChannel } from 'node:diagnostics_channel'

/** What subscribers get. `result` or `error` is there from `asyncStart` on. */
export interface TraceContext {
  command: string
  sessionId?: string
  processId?: string
  jobId?: string | undefined
  result?: unknown
  error?: unknown
}

type Channel = TracingChannel<unknown, TraceContext>

const channels = {
  exec: tracingChannel<unknown, TraceContext>('nacre:exec'),
  process: tracingChannel<unknown, TraceContext>('nacre:process'),
  job: tracingChannel<unknown, TraceContext>('nacre:job'),
}

/** Runs a call, and publishes it when something has subscribed. */
export function traced<T>(
  kind: keyof typeof channels,
  context: () => TraceContext,
  run: () => Promise<T>,
): Promise<T> {
  const channel = channels[kind]
  return isWatched(channel) ? (channel.tracePromise(run, context()) as Promise<T>) : run()
}

/** Older runtimes have the property on the single channels only. */
function isWatched({ start, end, asyncStart, asyncEnd, error }: Channel): boolean {
  return [start, end, asyncStart, asyncEnd, error].some((one) => one.hasSubscribers)
}
