/** The options of everything that waits for a process or reads its log. */

import type {
  Encoding,
  LogOptions,
  LogStreamOptions,
  PortOptions,
  WaitForLogOptions,
  WaitForPortOptions,
  WaitOptions,
} from '../calls/index.js'
import { oneOf } from '../schema/constructors.js'
import { requestPath, statusRange } from '../schema/http.js'
import { table } from '../schema/kind.js'
import { bytes, milliseconds, positiveMilliseconds } from '../schema/numbers.js'
import { abortSignal } from '../schema/signals.js'
import { encoding, flag } from '../schema/values.js'

/** Of `wait`. */
export const waitOptions = table<WaitOptions>()({
  timeout: { ...milliseconds, default: 0 },
  signal: abortSignal,
})

/** Of `waitForLog`. */
export const waitForLogOptions = table<WaitForLogOptions>()({
  ...waitOptions,
  since: { ...bytes, default: 0 },
})

/** How to look at a port. */
export const portOptions = table<PortOptions>()({
  mode: oneOf(['http', 'tcp']),
  path: { ...requestPath, default: '/' },
  status: statusRange,
  interval: { ...positiveMilliseconds, default: 100 },
})

/** Of `waitForPort`. */
export const waitForPortOptions = table<WaitForPortOptions>()({ ...portOptions, ...waitOptions })

/** Of `getLogs` and `getProcessLogs`. */
export const logOptions = table<LogOptions<Encoding>>()({
  encoding: { ...encoding, default: 'utf8' },
})

/** Of `output` and `streamProcessLogs`. */
export const logStreamOptions = table<LogStreamOptions<Encoding>>()({
  ...logOptions,
  since: { ...bytes, default: 0 },
  follow: { ...flag, default: true },
  signal: abortSignal,
})
