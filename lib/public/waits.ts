/** Waits for a background process: for its end, a line of its log, a port. */

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
  /** Where in the log to start, as in {@link LogStreamOptions}. Default: 0. */
  since?: number
}

/** The line that ended a wait. */
export interface LogMatch {
  /** The line without its end; a part of a line above 1 MiB. */
  line: string
  /** The match of a regular expression. */
  match?: RegExpExecArray
}

/** How to check a port. */
export interface PortOptions {
  /** 'tcp': the process listens. 'http': it answers as well. Default: 'http' when `path` or `status` is given. */
  mode?: 'http' | 'tcp'
  /**
   * The path to request with GET, from 127.0.0.1 or else ::1: printable ASCII without blanks that begins with `/`. Neither
   * `path` nor `status` is allowed with `mode: 'tcp'`. Default: '/'.
   */
  path?: string
  /** The status of the answer, 100 to 599, or a range. Redirections are not followed. Default: 200 to 399. */
  status?: number | { min?: number; max?: number }
  /** Milliseconds between two checks, 1 to 2147483647. Default: 100. */
  interval?: number
}

/** Options of {@link Process.waitForPort}. */
export interface WaitForPortOptions extends PortOptions, WaitOptions {}
