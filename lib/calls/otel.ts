/**
 * `nacre/otel`: OpenTelemetry spans for commands, processes and jobs, which receive the trace context in their
 * environment. Needs `@opentelemetry/api`. docs/tracing.md describes the spans.
 *
 * @packageDocumentation
 */

import type { TracerProvider } from '@opentelemetry/api'
import { local } from '../schema/constructors.js'
import { table } from '../schema/kind.js'
import { flag, hasMethod } from '../schema/values.js'

/** Options of {@link instrument}. */
export interface InstrumentOptions {
  /** The provider of the tracer. Default: the global provider at the time of each call. */
  tracerProvider?: TracerProvider
  /**
   * Whether spans have `process.command_args`: the arguments, or `bash -c` and the text. Arguments may contain secrets.
   * Default: false.
   */
  commandArgs?: boolean
}

export const instrumentOptions = table<InstrumentOptions>()({
  tracerProvider: local<TracerProvider>((value) => hasMethod(value, 'getTracer'), 'must be a TracerProvider'),
  commandArgs: { ...flag, default: false },
})

/** Active instrumentation. */
export interface Instrumentation {
  /** Stops starting spans. Open spans still end. Idempotent. */
  disable(): void
}

/**
 * Starts a span for each later command, process and job of every sandbox in this program. Its parent is the active span
 * at the call. Unless the call's own `env` has TRACEPARENT, commands receive TRACEPARENT, and TRACESTATE if the trace
 * has one. Requests of commands to hosts with secrets, rules or handlers have spans below those of their commands.
 *
 * Throws {@link OptionError}.
 */
export declare function instrument(options?: InstrumentOptions): Instrumentation
