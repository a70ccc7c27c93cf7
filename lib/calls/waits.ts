/** Options of waits for a background process: for its end, a log line, or a port. */

import { invalidOption } from '../base/errors.js'
import { either, mapped, object, oneOf } from '../schema/constructors.js'
import { requestPath, statusCode } from '../schema/http.js'
import { table } from '../schema/kind.js'
import { bytes, lineNumber, milliseconds, positiveMilliseconds } from '../schema/numbers.js'
import { type Field, optional, reply, wordOf } from '../schema/reply.js'
import { abortSignal } from '../schema/signals.js'
import { flag } from '../schema/values.js'
import { type ProcessExit, type ProcessWaiting, processExit, processWaiting } from './exit.js'
import { type LogLine, logLine, regularExpression } from './logs.js'

/** Options of {@link Process.waitForExit} and the other waits for a process. */
export interface WaitOptions {
  /**
   * Milliseconds until the wait rejects with PROCESS_READY_TIMEOUT (`waitForExit`: PROCESS_WAIT_TIMEOUT); 0 to 2147483647, 0 = none.
   * Default: 0.
   */
  timeout?: number
  /** Aborting rejects the wait with an {@link AbortError}. The process is unaffected. */
  signal?: AbortSignal
}

export const waitOptions = table<WaitOptions>()({
  timeout: { ...milliseconds, default: 0 },
  signal: abortSignal,
})

/** Options of {@link Process.waitFor}. */
export interface WaitForOptions {
  /** Whether to wait for a program that waits for input and for nothing else. Default: false. */
  input?: boolean
  /** A regular expression, as `grep` of {@link LogLinesOptions}: waits for a line that matches. Default: none. */
  log?: string
  /** The number of the first line that `log` is tested with, from 1; a negative one counts from the end. Default: 1. */
  fromLine?: number
  /** Milliseconds without output, counted from the call; 1 to 2147483647. Default: none. */
  idle?: number
  /** Milliseconds until the wait ends by 'timeout', 0 to 2147483647; 0 = none. Default: 0. */
  timeout?: number
  /** Aborting rejects the wait with an {@link AbortError}. The process is unaffected. */
  signal?: AbortSignal
}

export const waitForOptions = table<WaitForOptions>()({
  input: { ...flag, default: false },
  log: regularExpression,
  fromLine: { ...lineNumber, default: 1 },
  idle: positiveMilliseconds,
  timeout: { ...milliseconds, default: 0 },
  signal: abortSignal,
})

/** What came first. */
export interface WaitEnd {
  /** The end of the process ends every wait. */
  by: 'exit' | 'input' | 'log' | 'idle' | 'timeout'
  /** By 'exit': how the process ended. */
  exit?: ProcessExit
  /** By 'input': the program that waits for it. */
  input?: ProcessWaiting
  /** By 'log': the line. */
  line?: LogLine
}

export const waitEnd = reply<WaitEnd>({
  by: wordOf('exit', 'input', 'log', 'idle', 'timeout'),
  exit: optional(processExit),
  input: optional(processWaiting),
  line: optional(logLine as Field<LogLine>),
})

/** Options of {@link Process.waitForLog}. */
export interface WaitForLogOptions extends WaitOptions {
  /** Byte offset in the log at which to start, as in {@link LogStreamOptions}. Default: 0. */
  cursor?: number
}

export const waitForLogOptions = table<WaitForLogOptions>()({
  ...waitOptions,
  cursor: { ...bytes, default: 0 },
})

/** The line that ended a wait. */
export interface LogMatch {
  /** The line, without its line ending. Of a line above 64 KiB, a part. */
  line: string
  /** The match of a regular expression, as `exec` of the RegExp gives it. */
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
    throw invalidOption(`${name} must have a min that is not above its max`)
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
