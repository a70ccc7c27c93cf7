/** Spans that nacre/otel makes, in memory. */
import type { Tracer } from '@opentelemetry/api'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base'
import type { Sandbox, SandboxOptions } from 'nacre'
import { type InstrumentOptions, instrument } from 'nacre/otel'
import { withSandbox } from './invariants.js'
import { until } from './until.js'

export interface Traced {
  sandbox: Sandbox
  tracer: Tracer
  /** The spans that have ended, once there are that many. */
  spans(count: number): Promise<ReadableSpan[]>
}

/** A sandbox whose calls make spans. */
export async function withSpans(
  test: (traced: Traced) => Promise<void>,
  instrumentOptions: InstrumentOptions = {},
  options: SandboxOptions = {},
): Promise<void> {
  const exporter = new InMemorySpanExporter()
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
  const ended = (count: number) => {
    const spans = exporter.getFinishedSpans()
    return spans.length >= count ? spans : undefined
  }
  await withSandbox(
    async ({ sandbox }) => {
      // A disturbed measurement runs the test again.
      exporter.reset()
      const instrumentation = instrument({ tracerProvider, ...instrumentOptions })
      try {
        await test({
          sandbox,
          tracer: tracerProvider.getTracer('test'),
          spans: (count) =>
            until(
              () => ended(count),
              () => `${exporter.getFinishedSpans().length} spans have ended`,
            ),
        })
      } finally {
        instrumentation.disable()
      }
    },
    { options },
  )
  await tracerProvider.shutdown()
}

export const parentOf = ({ traceId, spanId }: { traceId: string; spanId: string }) =>
  `00-${traceId}-${spanId}-01`
