/** The log of a background process. */

import { table } from '../schema/kind.js'
import { bytes } from '../schema/numbers.js'
import { decodeOutput, encodeOutput, number, optional, output, type Reply, reply } from '../schema/reply.js'
import { abortSignal } from '../schema/signals.js'
import { encoding, flag } from '../schema/values.js'
import type { Encoding, Output } from './command.js'
import type { AbortError } from './errors.js'
import type { Process, ProcessExit } from './process.js'
import type { Sandbox } from './sandbox.js'

/** A chunk of a process's output. */
export interface LogOutput<E extends Encoding = 'utf8'> {
  type: 'stdout' | 'stderr'
  /**
   * Output, never empty. Characters of text are never split: a character that arrives in two chunks is in the second.
   */
  data: Output<E>
  /** The `since` from which to continue. Counts the bytes of the whole log, both streams together. */
  cursor: number
  /** When it arrived, as ISO 8601, accurate to 10 ms. */
  timestamp: string
  /** Number of bytes missing just before this event, because of `logLimit` or a full disk. */
  missing?: number
}

/** The end of a process, after all of its output. */
export interface LogExit extends ProcessExit {
  type: 'exit'
  timestamp: string
  missing?: number
}

/** The events of {@link Process.output} and {@link Sandbox.streamProcessLogs}. */
export type LogEvent<E extends Encoding = 'utf8'> = LogOutput<E> | LogExit

/** The end of a process is sent as it is. */
export const logEvent: Pick<Reply<LogEvent<Encoding>>, 'encode' | 'decode'> = {
  encode: (event, toBase64) =>
    event.type === 'exit' ? event : { ...event, data: encodeOutput(event.data, toBase64) },
  decode(json, encoding = 'utf8') {
    const event = json as LogEvent
    return event.type === 'exit' ? event : { ...event, data: decodeOutput(event.data, encoding) }
  },
}

/** A whole log. */
export interface ProcessLogs<E extends Encoding = 'utf8'> {
  stdout: Output<E>
  stderr: Output<E>
  /** Number of bytes missing from both streams, because of `logLimit` or a full disk. Absent if the log is complete. */
  truncated?: number
}

export const processLogs = reply<ProcessLogs<Encoding>>({
  stdout: output,
  stderr: output,
  truncated: optional(number),
})

/** Options of {@link Process.getLogs}. */
export interface LogOptions<E extends Encoding = 'utf8'> {
  /** 'utf8' gives strings, 'buffer' gives bytes. Default: 'utf8'. */
  encoding?: E
}

export const logOptions = table<LogOptions<Encoding>>()({ encoding: { ...encoding, default: 'utf8' } })

/** Options of {@link Process.output}. */
export interface LogStreamOptions<E extends Encoding = 'utf8'> extends LogOptions<E> {
  /**
   * Byte offset at which to start: the `cursor` of an event, or any number. An offset beyond the end starts at the end.
   * Default: 0.
   */
  since?: number
  /**
   * Whether to continue until the process ends. With false, the iteration ends with the output so far. Default: true.
   */
  follow?: boolean
  /** Aborting makes the iteration throw an {@link AbortError}. The process is unaffected. */
  signal?: AbortSignal
}

export const logStreamOptions = table<LogStreamOptions<Encoding>>()({
  ...logOptions,
  since: { ...bytes, default: 0 },
  follow: { ...flag, default: true },
  signal: abortSignal,
})
