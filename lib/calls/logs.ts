/** The log of a background process. */

import type { Encoding, Output } from '../base/types.js'
import { text as textKind } from '../schema/constructors.js'
import { table } from '../schema/kind.js'
import { bytes, count, lineNumber } from '../schema/numbers.js'
import {
  boolean,
  decodeOutput,
  encodeOutput,
  list,
  number,
  optional,
  orNull,
  output,
  type Reply,
  reply,
  wordOf,
} from '../schema/reply.js'
import { abortSignal } from '../schema/signals.js'
import { encoding, flag } from '../schema/values.js'
import type { ProcessExit } from './exit.js'

/** A chunk of a process's output. */
export interface LogOutput<E extends Encoding = 'utf8'> {
  type: 'stdout' | 'stderr'
  /**
   * Output, never empty. Characters of text are never split: a character that arrives in two chunks is in the second.
   */
  data: Output<E>
  /** The `cursor` from which to continue. Counts the bytes of the whole log, both streams together. */
  cursor: number
  /** When it arrived, to 10 ms. */
  time: Date
  /** Number of bytes missing just before this event, because of `logLimit` or a full disk. */
  missing?: number
}

/** The end of a process, after all of its output. */
export interface LogExit extends ProcessExit {
  type: 'exit'
  time: Date
  missing?: number
}

/** The events of {@link Process.output} and {@link Sandbox.streamProcessLogs}. */
export type LogEvent<E extends Encoding = 'utf8'> = LogOutput<E> | LogExit

/** Times are sent as ISO 8601. */
export const logEvent: Pick<Reply<LogEvent<Encoding>>, 'encode' | 'decode'> = {
  encode: (event, toBase64) =>
    event.type === 'exit' ? event : { ...event, data: encodeOutput(event.data, toBase64) },
  decode(json, encoding = 'utf8') {
    const event = { ...(json as LogEvent), time: new Date((json as { time: string }).time) }
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

/** Options of {@link Process.getLogLines}. */
export interface LogLinesOptions<E extends Encoding = 'utf8'> extends LogOptions<E> {
  /** The number of the first line, from 1. A negative number counts from the end: -1 is the last line. Default: 1. */
  fromLine?: number
  /** Maximum number of lines in the reply, 1 to 10000. Default: 1000. */
  lines?: number
  /**
   * Whether to return the last lines instead of the first, if there are more than `lines`. With `grep`, the last match is
   * among them. Default: false.
   */
  tail?: boolean
  /**
   * A regular expression of at most 1000 characters. Only lines that match it are returned, as they are or as a terminal
   * shows them: without escape sequences, and without what `\r` overwrote. Its syntax is that of the Rust crate
   * regex-lite, without look-around and backreferences. `(?i)` at its start ignores case. The time of a search is at most
   * proportional to the log times the size of the expression, and no more than 30 s. Default: all lines.
   */
  grep?: string
  /**
   * How many lines to return before and after each match, 0 to 100. Those after a match before `fromLine` count too, so
   * that replies that go on from `next` have all lines. Default: 0.
   */
  context?: number
  /** Aborting ends the search, and the call rejects with an {@link AbortError}. */
  signal?: AbortSignal
}

const MOST_CHARACTERS = 1000

/** A regular expression that the engine runs. It also finds the faults. */
export const regularExpression = textKind(
  (value) => value !== '' && value.length <= MOST_CHARACTERS,
  `must be a regular expression of 1 to ${MOST_CHARACTERS} characters, as text`,
  { bounds: `a regular expression of 1 to ${MOST_CHARACTERS} characters` },
)

export const logLinesOptions = table<LogLinesOptions<Encoding>>()({
  ...logOptions,
  fromLine: { ...lineNumber, default: 1 },
  lines: { ...count(1, 10_000), default: 1000 },
  tail: { ...flag, default: false },
  grep: regularExpression,
  context: { ...count(0, 100), default: 0 },
  signal: abortSignal,
})

/** A line of a log. */
export interface LogLine<E extends Encoding = 'utf8'> {
  /** From 1. It counts the lines of both streams. */
  number: number
  stream: 'stdout' | 'stderr'
  /** The line, without `\n` or `\r\n`. */
  text: Output<E>
  /** Whether `grep` matches it. False for the lines around a match, and without `grep`. */
  match: boolean
  /** Whether a part of it is missing: beyond 64 KiB of a line, because of `logLimit`, or because of a full disk. */
  cut: boolean
  /** Whether its newline has arrived. Lines without one come last, and another line may still take their number. */
  ended: boolean
}

/** Lines of a log. */
export interface LogLines<E extends Encoding = 'utf8'> {
  /** In the order of their numbers: at most `lines`, and at most 1 MiB. */
  lines: LogLine<E>[]
  /** How many lines the process has printed so far. */
  total: number
  /** The first line of which something is kept. Lines before it were dropped because of `logLimit`. */
  first: number
  /** How many lines from `fromLine` on match `grep`, whether they are returned or not. null without `grep`. */
  matches: number | null
  /** The `fromLine` with which to continue, if the reply had no room for more. null otherwise, and with `tail`. */
  next: number | null
}

export const logLine = reply<LogLine<Encoding>>({
  number,
  stream: wordOf('stdout', 'stderr'),
  text: output,
  match: boolean,
  cut: boolean,
  ended: boolean,
})

export const logLines = reply<LogLines<Encoding>>({
  lines: list(logLine),
  total: number,
  first: number,
  matches: orNull(number),
  next: orNull(number),
})

/** Options of {@link Process.output}. */
export interface LogStreamOptions<E extends Encoding = 'utf8'> extends LogOptions<E> {
  /**
   * Byte offset at which to start: the `cursor` of an event, or any number. An offset beyond the end starts at the end.
   * Default: 0.
   */
  cursor?: number
  /**
   * Whether to continue until the process ends. With false, the iteration ends with the output so far. Default: true.
   */
  follow?: boolean
  /** Aborting makes the iteration throw an {@link AbortError}. The process is unaffected. */
  signal?: AbortSignal
}

export const logStreamOptions = table<LogStreamOptions<Encoding>>()({
  ...logOptions,
  cursor: { ...bytes, default: 0 },
  follow: { ...flag, default: true },
  signal: abortSignal,
})
