/** Trace context in environment variables, with the names and format of W3C Trace Context. */
import {
  type Context,
  createTraceState,
  isSpanContextValid,
  type Span,
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

/**
 * The parent context of a request: the span that it names, if that is in the trace of its command, or the command's. Commands
 * cannot add to other traces.
 */
export function parentOfRequest(
  traceparent: string | undefined,
  call: Span | undefined,
  active: Context,
): Context {
  if (call === undefined) return trace.deleteSpan(active)
  const named = parse(traceparent)
  const isOwn = isSpanContextValid(named) && named.traceId === call.spanContext().traceId
  return isOwn ? trace.setSpanContext(active, named) : trace.setSpan(active, call)
}

/** The parent context of a call: the active context, or without a span in it, the context that the variables name. */
export function parentOf(env: Record<string, string | undefined>, active: Context): Context {
  if (trace.getSpan(active) !== undefined) return active
  const state = env.TRACESTATE === undefined ? {} : { traceState: createTraceState(env.TRACESTATE) }
  const parent = { ...parse(env.TRACEPARENT), ...state }
  return isSpanContextValid(parent) ? trace.setSpanContext(active, parent) : active
}

/** Not valid if the text is not. */
function parse(traceparent = ''): SpanContext {
  const [, traceId = '', spanId = '', flags = ''] = TRACEPARENT.exec(traceparent) ?? []
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true }
}
