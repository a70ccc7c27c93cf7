/** Trace context in environment variables, with the names and format of W3C Trace Context. */
import {
  type Context,
  createTraceState,
  isSpanContextValid,
  type SpanContext,
  trace,
} from '@opentelemetry/api'

const VERSION = '00'
const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/

/** Adds the variables, unless the caller has set a parent. An invalid span context is not propagated. */
export function addTraceContext(env: Record<string, string | undefined>, span: SpanContext): void {
  if (Object.hasOwn(env, 'TRACEPARENT') || !isSpanContextValid(span)) return
  const flags = (span.traceFlags & 0xff).toString(16).padStart(2, '0')
  env.TRACEPARENT = [VERSION, span.traceId, span.spanId, flags].join('-')
  const state = span.traceState?.serialize()
  if (state) env.TRACESTATE = state
}

/** The parent context of a call: the active context, or without a span in it, the context that the variables name. */
export function parentOf(env: Record<string, string | undefined>, active: Context): Context {
  if (trace.getSpan(active) !== undefined) return active
  const [, traceId = '', spanId = '', flags = ''] = TRACEPARENT.exec(env.TRACEPARENT ?? '') ?? []
  const state = env.TRACESTATE === undefined ? {} : { traceState: createTraceState(env.TRACESTATE) }
  const parent = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true, ...state }
  return isSpanContextValid(parent) ? trace.setSpanContext(active, parent) : active
}
