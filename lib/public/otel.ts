/**
 * `nacre/otel`: OpenTelemetry spans of commands, processes and jobs, and their trace context in the environment of what
 * they run. Needs `@opentelemetry/api`. docs/tracing.md describes the spans.
 *
 * @packageDocumentation
 */

import type { TracerProvider } from '@opentelemetry/api'

/** Options of {@link instrument}. */
export interface InstrumentOptions {
  /** Where the tracer comes from. Default: the global provider, at each call. */
  tracerProvider?: TracerProvider
  /**
   * Whether spans have `process.command_args`: the arguments, or `bash -c` and the text. They may hold secrets.
   * Default: false.
   */
  commandArgs?: boolean
}

/** What {@link instrument} has turned on. */
export interface Instrumentation {
  /** Begins no more spans. Those that have begun still end. Nothing happens the second time. */
  disable(): void
}

/**
 * Makes a span of each command, process and job of every sandbox in this program, from now on. The span that is active
 * where the call is made is its parent. Commands get TRACEPARENT, and TRACESTATE where there is one, in their environment,
 * unless the call's own `env` has TRACEPARENT.
 *
 * Throws {@link OptionError}.
 */
export declare function instrument(options?: InstrumentOptions): Instrumentation
