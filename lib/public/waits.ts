/** Waiting for a background process: for its end, a line of its log, a port. */

import type { AbortError } from './errors.js'
import type { LogStreamOptions } from './logs.js'
import type { Process } from './process.js'

/** Options of {@link Process.wait}. */
export interface WaitOptions {
  /** Milliseconds until the wait is given up with PROCESS_READY_TIMEOUT; 0 to 2147483647, 0 = none. Default: 0. */
  timeout?: number
  /** Aborting gives up the wait with an {@link AbortError}. The process does not notice. */
  signal?: AbortSignal
}

/** Options of {@link Process.waitForLog}. */
export interface WaitForLogOptions extends WaitOptions {
  /** Where in the log to begin, like that of {@link LogStreamOptions}. Default: 0. */
  since?: number
}

/** A line that was waited for. */
export interface LogMatch {
  /** Without its end. Of a line above 1 MiB, a part. */
  line: string
  /** What a regular expression has matched. */
  match?: RegExpExecArray
}

/** How to look at a port. */
export interface PortOptions {
  /** 'tcp': the process listens. 'http': it answers as well. Default: 'http' when `path` or `status` is given. */
  mode?: 'http' | 'tcp'
  /**
   * The page to ask for with GET, at 127.0.0.1 or else ::1. Printable ASCII without blanks that begins with
   * `/`; not with `mode: 'tcp'`, nor is `status`. Default: '/'.
   */
  path?: string
  /** The status of the answer, 100 to 599, or a range. Redirections are not followed. Default: 200 to 399. */
  status?: number | { min?: number; max?: number }
  /** Milliseconds between two looks, 1 to 2147483647. Default: 100. */
  interval?: number
}

/** Options of {@link Process.waitForPort}. */
export interface WaitForPortOptions extends PortOptions, WaitOptions {}
