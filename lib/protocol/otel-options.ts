/** The options of `nacre/otel`. */

import type { TracerProvider } from '@opentelemetry/api'
import type { InstrumentOptions } from '../calls/otel.js'
import { local } from '../schema/constructors.js'
import { table } from '../schema/kind.js'
import { flag, hasMethod } from '../schema/values.js'

/** Of `instrument`. */
export const instrumentOptions = table<InstrumentOptions>()({
  tracerProvider: local<TracerProvider>((value) => hasMethod(value, 'getTracer'), 'must be a TracerProvider'),
  commandArgs: { ...flag, default: false },
})
