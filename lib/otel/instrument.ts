/**
 * Creates spans from the tracing channels. Each span begins at the call's `start`, so that its trace context is in the
 * environment before the command runs.
 */
import { context, type Span, type Tracer, type TracerProvider, trace } from '@opentelemetry/api'
import type { TraceContext } from '../backends/native/tracing.js'
import { diagnosticsChannel } from '../base/builtin.js'
import { type Instrumentation, type InstrumentOptions, instrumentOptions } from '../calls/otel.js'
import { readOptions } from '../schema/read.js'
import { addTraceContext, parentOf } from './propagate.js'
import { endOfCall, endOfProcess, finish, firstAttributes, KINDS, nameOf } from './spans.js'

type Kind = keyof typeof KINDS

/** See calls/otel.ts. */
export function instrument(options?: InstrumentOptions): Instrumentation {
  const { tracerProvider, commandArgs = false } = readOptions(instrumentOptions, options, 'instrument')
  const stops = (Object.keys(KINDS) as Kind[]).map((kind) => subscribe(kind, tracerProvider, commandArgs))
  return {
    disable() {
      for (const stop of stops) stop()
    },
  }
}

function subscribe(kind: Kind, provider: TracerProvider | undefined, commandArgs: boolean): () => void {
  const spans = new WeakMap<TraceContext, Span>()
  const channel = diagnosticsChannel.tracingChannel<unknown, TraceContext>(`nacre:${kind}`)
  const nothing = () => {}
  const subscribers = {
    start(call: TraceContext) {
      const span = begin(tracerOf(provider), kind, call, commandArgs)
      spans.set(call, span)
      addTraceContext(call.env, span.spanContext())
    },
    end: nothing,
    asyncStart: nothing,
    error: nothing,
    asyncEnd(call: TraceContext) {
      const span = spans.get(call)
      if (span !== undefined) settle(span, call)
    },
  }
  channel.subscribe(subscribers)
  return () => void channel.unsubscribe(subscribers)
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
