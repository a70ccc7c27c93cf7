/**
 * Creates spans from the tracing channels. Each span begins at `start`, so that its trace context is in the environment before
 * the command runs.
 */
import { context, type Span, type Tracer, type TracerProvider, trace } from '@opentelemetry/api'
import type { RequestContext, TraceContext } from '../backends/native/tracing.js'
import { diagnosticsChannel } from '../base/builtin.js'
import { type Instrumentation, type InstrumentOptions, instrumentOptions } from '../calls/otel.js'
import { readOptions } from '../schema/read.js'
import { addTraceContext, parentOf, parentOfRequest } from './propagate.js'
import { beginRequest, finishRequest } from './requests.js'
import { endOfCall, endOfProcess, finish, firstAttributes, KINDS, nameOf } from './spans.js'

type Kind = keyof typeof KINDS

/** See calls/otel.ts. */
export function instrument(options?: InstrumentOptions): Instrumentation {
  const { tracerProvider, commandArgs = false } = readOptions(instrumentOptions, options, 'instrument')
  const calls = new WeakMap<TraceContext, Span>()
  const ofCalls = (kind: Kind) =>
    subscribe<TraceContext>(kind, calls, {
      begin(call) {
        const span = begin(tracerOf(tracerProvider), kind, call, commandArgs)
        addTraceContext(call.env, span.spanContext())
        return span
      },
      settle,
    })
  const ofRequests = subscribe<RequestContext>('request', new WeakMap(), {
    begin(request) {
      const parent = parentOfRequest(request.traceparent, calls.get(request.call), context.active())
      return beginRequest(tracerOf(tracerProvider), request, parent)
    },
    settle: finishRequest,
  })
  const stops = [...(Object.keys(KINDS) as Kind[]).map(ofCalls), ofRequests]
  return {
    disable() {
      for (const stop of stops) stop()
    },
  }
}

/** How a span of a channel begins and ends. */
interface Life<T> {
  begin(published: T): Span
  settle(span: Span, published: T): void
}

/** Keeps the spans of a channel in `spans`. Returns a function that stops that: open spans still end. */
function subscribe<T extends object>(kind: string, spans: WeakMap<T, Span>, life: Life<T>): () => void {
  const { start, asyncEnd } = diagnosticsChannel.tracingChannel<unknown, T>(`nacre:${kind}`)
  const open = new Set<T>()
  let isStopped = false
  const begin = (published: unknown) => {
    spans.set(published as T, life.begin(published as T))
    open.add(published as T)
  }
  const end = (published: unknown) => {
    const span = spans.get(published as T)
    if (span !== undefined && open.delete(published as T)) life.settle(span, published as T)
    letGo()
  }
  const letGo = () => {
    if (isStopped && open.size === 0) asyncEnd.unsubscribe(end)
  }
  start.subscribe(begin)
  asyncEnd.subscribe(end)
  return () => {
    isStopped = true
    start.unsubscribe(begin)
    letGo()
  }
}

/** The tracer, looked up at each use: the global provider may be set later than this module is loaded. */
function tracerOf(provider: TracerProvider | undefined): Tracer {
  return (provider ?? trace.getTracerProvider()).getTracer('nacre')
}

function begin(tracer: Tracer, kind: Kind, call: TraceContext, commandArgs: boolean): Span {
  const attributes = firstAttributes(call, commandArgs)
  const parent = parentOf(call.parent ?? call.env, context.active())
  return tracer.startSpan(nameOf(call), { kind: KINDS[kind], attributes }, parent)
}

/** Ends a span. The span of a started process continues until the process ends. */
function settle(span: Span, call: TraceContext): void {
  if (call.pid !== undefined) span.setAttribute('process.pid', call.pid)
  if (call.ended === undefined) finish(span, endOfCall(call))
  else void call.ended.then((exit) => finish(span, endOfProcess(exit)))
}
