/** The options of `nacre/otel`. */
import type { TracerProvider } from '@opentelemetry/api'
import { OptionError } from '../base/errors.js'
import { flag } from '../schema/kinds.js'
import { type Kind, option } from '../schema/option.js'
import { describe } from '../schema/read.js'

const tracerProvider: Kind<TracerProvider> = {
  read(value, name) {
    if (typeof (value as Partial<TracerProvider> | null)?.getTracer === 'function')
      return value as TracerProvider
    throw new OptionError('INVALID_OPTION', `${name} must be a TracerProvider, not ${describe(value)}`)
  },
  bounds: 'a TracerProvider',
}

/** Of `instrument`. */
export const instrumentOptions = {
  tracerProvider: option(tracerProvider, {
    doc: 'The provider of the tracer.',
    otherwise: 'the global provider',
  }),
  commandArgs: option(flag, {
    doc: 'Adds `process.command_args` to spans. Arguments may contain secrets.',
    default: false,
  }),
}
