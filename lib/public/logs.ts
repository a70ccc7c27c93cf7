/** The log of a background process. */

import type { Encoding, Output } from './command.js'
import type { AbortError } from './errors.js'
import type { Process, ProcessExit } from './process.js'
import type { Sandbox } from './sandbox.js'

/** A piece of a process's output. */
export interface LogOutput<E extends Encoding = 'utf8'> {
  type: 'stdout' | 'stderr'
  /** Never empty. As text, characters are never split; one that arrived in two pieces comes with the second. */
  data: Output<E>
  /** Where to go on: the `since` that gives what follows this. Bytes in the whole log, both streams together. */
  cursor: number
  /** When it arrived, as ISO 8601, to 10 ms. */
  timestamp: string
  /** Bytes that are missing just before this, because of `logLimit` or a full disk. */
  missing?: number
}

/** The end of a process, after all of its output. */
export interface LogExit extends ProcessExit {
  type: 'exit'
  timestamp: string
  missing?: number
}

/** What {@link Process.output} and {@link Sandbox.streamProcessLogs} give. */
export type LogEvent<E extends Encoding = 'utf8'> = LogOutput<E> | LogExit

/** A log as a whole. */
export interface ProcessLogs<E extends Encoding = 'utf8'> {
  stdout: Output<E>
  stderr: Output<E>
  /** Bytes of both streams that are missing, because of `logLimit` or a full disk; not there when none are. */
  truncated?: number
}

/** Options of {@link Process.getLogs}. */
export interface LogOptions<E extends Encoding = 'utf8'> {
  /** 'utf8' gives strings, 'buffer' gives bytes. Default: 'utf8'. */
  encoding?: E
}

/** Options of {@link Process.output}. */
export interface LogStreamOptions<E extends Encoding = 'utf8'> extends LogOptions<E> {
  /** Where to begin: the `cursor` of an event, or any number of bytes. Beyond the end it is the end. Default: 0. */
  since?: number
  /** Whether to go on until the process has ended. With false, what is there at the first `next` is all. Default: true. */
  follow?: boolean
  /** Aborting makes the iteration throw an {@link AbortError}. The process does not notice. */
  signal?: AbortSignal
}
