/** Options of waits for a background process: for its end, a log line, or a port. */

import { OptionError } from '../base/errors.js'
import { either, mapped, object, oneOf } from '../schema/constructors.js'
import { requestPath, statusCode } from '../schema/http.js'
import { table } from '../schema/kind.js'
import { bytes, milliseconds, positiveMilliseconds } from '../schema/numbers.js'
import { abortSignal } from '../schema/signals.js'
import type { AbortError } from './errors.js'
import type { LogStreamOptions } from './logs.js'
import type { Process } from './process.js'

/** Options of {@link Process.wait}. */
export interface WaitOptions {
  /** Milliseconds until the wait rejects with PROCESS_READY_TIMEOUT; 0 to 2147483647, 0 = none. Default: 0. */
  timeout?: number
  /** Aborting rejects the wait with an {@link AbortError}. The process is unaffected. */
  signal?: AbortSignal
}

export const waitOptions = table<WaitOptions>()({
  timeout: { ...milliseconds, default: 0 },
  signal: abortSignal,
})

/** Options of {@link Process.waitForLog}. */
export interface WaitForLogOptions extends WaitOptions {
  /** Byte offset in the log at which to start, as in {@link LogStreamOptions}. Default: 0. */
  since?: number
}

export const waitForLogOptions = table<WaitForLogOptions>()({
  ...waitOptions,
  since: { ...bytes, default: 0 },
})

/** The line that ended a wait. */
export interface LogMatch {
  /** The line, without its line ending. Of a line above 1 MiB, a part. */
  line: string
  /** The match of a regular expression. */
  match?: RegExpExecArray
}

/** Options of a port check. */
export interface PortOptions {
  /**
   * 'tcp' waits until the process listens; 'http' also waits for a response. Default: 'http' if `path` or `status` is
   * given, otherwise 'tcp'.
   */
  mode?: 'http' | 'tcp'
  /**
   * The path to request with GET, from 127.0.0.1 or else ::1. It is printable ASCII without blanks and begins with `/`.
   * `mode: 'tcp'` excludes `path` and `status`. Default: '/'.
   */
  path?: string
  /** The status codes that count as ready: 100 to 599, or a range. Redirects are not followed. Default: 200 to 399. */
  status?:
    | number
    | {
        /** The first status, 100 to 599. Default: 100. */
        min?: number
        /** The last status, 100 to 599. Default: 599. */
        max?: number
      }
  /** Milliseconds between two checks, 1 to 2147483647. Default: 100. */
  interval?: number
}

export const statusOptions = table<Exclude<PortOptions['status'], number | undefined>>()({
  min: { ...statusCode, default: 100 },
  max: { ...statusCode, default: 599 },
})

/** One status, or a range from the first to the last. */
export const statusRange = mapped(
  either(
    mapped(statusCode, (only) => ({ min: only, max: only })),
    (value) => typeof value === 'number',
    object(statusOptions),
    '100 to 599, or { min, max }',
  ),
  ({ min = statusOptions.min.default, max = statusOptions.max.default }, name) => {
    if (min <= max) return { min, max }
    throw new OptionError('INVALID_OPTION', `${name} must have a min that is not above its max`)
  },
)

export const portOptions = table<PortOptions>()({
  mode: oneOf(['http', 'tcp']),
  path: { ...requestPath, default: '/' },
  status: statusRange,
  interval: { ...positiveMilliseconds, default: 100 },
})

/** Options of {@link Process.waitForPort}. */
export interface WaitForPortOptions extends PortOptions, WaitOptions {}

export const waitForPortOptions = table<WaitForPortOptions>()({ ...portOptions, ...waitOptions })
