/** Options of waits for a background process: for its end, a log line, or a port. */

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

/** Options of {@link Process.waitForLog}. */
export interface WaitForLogOptions extends WaitOptions {
  /** Byte offset in the log at which to start, as in {@link LogStreamOptions}. Default: 0. */
  since?: number
}

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

/** Options of {@link Process.waitForPort}. */
export interface WaitForPortOptions extends PortOptions, WaitOptions {}
