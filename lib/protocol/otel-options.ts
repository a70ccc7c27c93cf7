/** The options of `nacre/otel`. */
import type { TracerProvider } from '@opentelemetry/api'
import { local } from '../schema/constructors.js'
import { option } from '../schema/kind.js'
import { flag, hasMethod } from '../schema/values.js'

/** Of `instrument`. */
export const instrumentOptions = {
  tracerProvider: option(
    local<TracerProvider>((value) => hasMethod(value, 'getTracer'), 'must be a TracerProvider'),
    {
      doc: 'The provider of the tracer.',
      otherwise: 'the global provider',
    },
  ),
  commandArgs: option(flag, {
    doc: 'Adds `process.command_args` to spans. Arguments may contain secrets.',
    default: false,
  }),
}
