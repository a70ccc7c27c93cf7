/** Spans of requests of commands, by the semantic conventions for HTTP clients. They have neither paths nor queries. */
import { type Context, type Span, SpanKind, type Tracer } from '@opentelemetry/api'
import type { RequestContext } from '../backends/native/tracing.js'
import { finish } from './spans.js'

/** Others are `_OTHER`: commands may send any. */
const METHODS = new Set(['CONNECT', 'DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT', 'TRACE'])

export function beginRequest(tracer: Tracer, request: RequestContext, parent: Context): Span {
  const { method, scheme, host, port, call } = request
  const isKnown = METHODS.has(method)
  const attributes = {
    'http.request.method': isKnown ? method : '_OTHER',
    ...(!isKnown && { 'http.request.method_original': method }),
    'url.scheme': scheme,
    'server.address': host,
    'server.port': port,
    ...(call.sessionId !== undefined && { 'nacre.session.id': call.sessionId }),
  }
  return tracer.startSpan(isKnown ? method : 'HTTP', { kind: SpanKind.CLIENT, attributes }, parent)
}

/** A request without a reply has failed, too. */
export function finishRequest(span: Span, { result }: RequestContext): void {
  const { status = null, denied } = result ?? {}
  if (status !== null) span.setAttribute('http.response.status_code', status)
  if (denied !== undefined) span.setAttribute('nacre.request.denied', denied)
  const errorType = status === null ? '_OTHER' : String(status)
  finish(span, { errorType: status === null || status >= 400 ? errorType : undefined })
}
