/** Trace context in environment variables, by the names and the form of W3C Trace Context. */
import { isSpanContextValid, type SpanContext } from '@opentelemetry/api'

const VERSION = '00'

/** Adds the variables, unless the caller has given a parent. A span context that is invalid belongs to no trace. */
export function addTraceContext(env: Record<string, string | undefined>, span: SpanContext): void {
  if (Object.hasOwn(env, 'TRACEPARENT') || !isSpanContextValid(span)) return
  const flags = (span.traceFlags & 0xff).toString(16).padStart(2, '0')
  env.TRACEPARENT = [VERSION, span.traceId, span.spanId, flags].join('-')
  const state = span.traceState?.serialize()
  if (state) env.TRACESTATE = state
}
