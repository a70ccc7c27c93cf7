/**
 * `nacre/otel`: OpenTelemetry spans of commands, processes and jobs. Their environment has the trace context. Needs
 * `@opentelemetry/api`. docs/tracing.md describes the spans.
 *
 * @packageDocumentation
 */

import type { TracerProvider } from '@opentelemetry/api'

/** Options of {@link instrument}. */
export interface InstrumentOptions {
  /** The provider of the tracer. Default: the global provider, at each call. */
  tracerProvider?: TracerProvider
  /**
   * Whether spans have `process.command_args`: the arguments, or `bash -c` and the text. They may hold secrets.
   * Default: false.
   */
  commandArgs?: boolean
}

/** Active instrumentation. */
export interface Instrumentation {
  /** Starts no more spans. Open spans still end. Idempotent. */
  disable(): void
}

/**
 * Starts a span for each later command, process and job of every sandbox in this program. The span that is active at the
 * call is its parent. Commands get TRACEPARENT, and TRACESTATE where there is one, in their environment,
 * unless the call's own `env` has TRACEPARENT.
 *
 * Throws {@link OptionError}.
 */
export declare function instrument(options?: InstrumentOptions): Instrumentation
