/** The options of everything that waits for a process or reads its log. */

import { oneOf } from '../schema/constructors.js'
import { requestPath, statusRange } from '../schema/http.js'
import { option } from '../schema/kind.js'
import { bytes, milliseconds, pause } from '../schema/numbers.js'
import { abortSignal } from '../schema/signals.js'
import { encoding, flag } from '../schema/values.js'

/** Of `wait`. */
export const waitOptions = {
  timeout: option(milliseconds, {
    doc: 'Time limit; 0 = none. On timeout, the wait rejects with PROCESS_READY_TIMEOUT.',
    default: 0,
  }),
  signal: option(abortSignal, {
    doc: 'Aborting ends the wait. The process is unaffected.',
    otherwise: 'none',
  }),
}

/** Of `waitForLog`. */
export const waitForLogOptions = {
  ...waitOptions,
  since: option(bytes, { doc: 'Byte offset in the log at which to begin.', default: 0 }),
}

/** How to look at a port. */
export const portOptions = {
  mode: option(oneOf(['http', 'tcp']), {
    doc: "'tcp' waits until the process listens; 'http' also waits for a response.",
    otherwise: "'http' when `path` or `status` is given, otherwise 'tcp'",
  }),
  path: option(requestPath, { doc: 'The path to request with GET.', default: '/' }),
  status: option(statusRange, { doc: 'The status codes that count as ready.', otherwise: '200 to 399' }),
  interval: option(pause, { doc: 'Time between two checks.', default: 100 }),
}

/** Of `waitForPort`. */
export const waitForPortOptions = { ...portOptions, ...waitOptions }

/** Of `getLogs` and `getProcessLogs`. */
export const logOptions = {
  encoding: option(encoding, {
    doc: 'Returns output as strings (utf8) or as bytes (buffer).',
    default: 'utf8',
  }),
}

/** Of `output` and `streamProcessLogs`. */
export const logStreamOptions = {
  ...logOptions,
  since: option(bytes, { doc: 'Byte offset at which to begin: the `cursor` of an event.', default: 0 }),
  follow: option(flag, { doc: 'Continues until the process ends.', default: true }),
  signal: option(abortSignal, {
    doc: 'Aborting ends the iteration. The process is unaffected.',
    otherwise: 'none',
  }),
}
