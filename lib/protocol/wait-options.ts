/** The options of everything that waits for a process or reads its log. */

import { abortSignal, bytes, count, encoding, flag, milliseconds, oneOf, pause } from '../schema/kinds.js'
import { type Kind, option } from '../schema/option.js'
import { portMode, requestPath, statusCode, statusRange } from '../schema/port-values.js'

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

const path: Kind<string> = {
  read: requestPath,
  json: { schema: { type: 'string' } },
  bounds: 'printable ASCII without blanks, beginning with /',
}

const status: Kind<ReturnType<typeof statusRange>> = {
  read: statusRange,
  json: {
    schema: {
      type: 'either',
      of: [
        { type: 'integer', minimum: 100, maximum: 599 },
        {
          type: 'object',
          table: {
            min: option(statusCode, { doc: 'The first status.', default: 100 }),
            max: option(statusCode, { doc: 'The last status.', default: 599 }),
          },
        },
      ],
    },
  },
  bounds: '100 to 599, or { min, max }',
}

/** How to look at a port. */
export const portOptions = {
  mode: option(oneOf(portMode, 'http', 'tcp'), {
    doc: "'tcp' waits until the process listens; 'http' also waits for a response.",
    otherwise: "'http' when `path` or `status` is given, otherwise 'tcp'",
  }),
  path: option(path, { doc: 'The path to request with GET.', default: '/' }),
  status: option(status, { doc: 'The status codes that count as ready.', otherwise: '200 to 399' }),
  interval: option(pause, { doc: 'Time between two checks.', default: 100 }),
}

/** Of `waitForPort`. */
export const waitForPortOptions = { ...portOptions, ...waitOptions }

export const portNumber = count(1, 65_535)

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
