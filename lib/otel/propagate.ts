/** Trace context in environment variables, by the names and the form of W3C Trace Context. */
import { createTraceState, isSpanContextValid, type SpanContext } from '@opentelemetry/api'

const VERSION = '00'

/** Adds the variables, unless the caller has given a parent. A span context that is invalid belongs to no trace. */
export function addTraceContext(env: Record<string, string | undefined>, span: SpanContext): void {
  if (Object.hasOwn(env, 'TRACEPARENT') || !isSpanContextValid(span)) return
  const flags = (span.traceFlags & 0xff).toString(16).padStart(2, '0')
  env.TRACEPARENT = [VERSION, span.traceId, span.spanId, flags].join('-')
  const state = span.traceState?.serialize()
  if (state) env.TRACESTATE = state
}

const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/

/** The parent that the variables name: where there is no active span, that of another process. */
export function remoteParent(env: Record<string, string | undefined>): SpanContext | undefined {
  const [, traceId, spanId, flags = '00'] = TRACEPARENT.exec(env.TRACEPARENT ?? '') ?? []
  if (traceId === undefined || spanId === undefined) return undefined
  const state = env.TRACESTATE === undefined ? {} : { traceState: createTraceState(env.TRACESTATE) }
  const span = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true, ...state }
  return isSpanContextValid(span) ? span : undefined
}
