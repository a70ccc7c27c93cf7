/** How commands and processes end, and what they wait for. */

import type { SignalName } from '../base/types.js'
import { table } from '../schema/kind.js'
import { boolean, number, orNull, reply, text, word, wordOf } from '../schema/reply.js'
import { killReasonText } from '../schema/signals.js'

export const signalName = word<SignalName>()

/**
 * Why a process ended: by itself ('exit'), by a signal from outside ('signal'), by a timeout, its memory limit ('oom') or a
 * kill, or with the program that had its kept sandbox ('host-lost').
 */
export type ExitReason = 'exit' | 'signal' | 'timeout' | 'oom' | 'killed' | 'host-lost'

export const exitReason = word<ExitReason>()

/** The end of a process. */
export interface ProcessExit {
  /** null if a signal ended the process. */
  exitCode: number | null
  signal: SignalName | null
  /** null if the process was lost with its supervisor; its status is 'error' then. */
  reason: ExitReason | null
}

export const processExit = reply<ProcessExit>({
  exitCode: orNull(number),
  signal: orNull(signalName),
  reason: orNull(exitReason),
})

/** Options of {@link ExecStream.kill} and {@link Session.killCommand}. */
export interface KillReason {
  /** Why, in 1 to 1000 characters. `killedBy` then has it. */
  reason?: string
}

export const killReason = table<KillReason>()({ reason: killReasonText })

/** What has killed a command or a process. */
export interface KilledBy {
  /**
   * 'timeout', 'oom' (its memory limit), 'outputLimit' and 'budget' are limits. 'abort' is an AbortSignal, an exception of a
   * callback or the input, or a client that has disconnected. 'caller' is a call that kills. 'session' is the end of the
   * session or the sandbox.
   */
  by: 'timeout' | 'abort' | 'caller' | 'oom' | 'outputLimit' | 'session' | 'budget'
  /** What the caller gave as `reason`, or which budget was used up; null if nothing. */
  reason: string | null
}

export const killedBy = reply<KilledBy>(
  {
    by: wordOf('timeout', 'abort', 'caller', 'oom', 'outputLimit', 'session', 'budget'),
    reason: orNull(text),
  },
  'KilledBy',
)

/** A program of a process that waits for input. */
export interface ProcessWaiting {
  /** 'reading': it waits for input and for nothing else. 'listening': also for something else, like a connection. */
  state: 'reading' | 'listening'
  /**
   * False for a program that cannot be looked at, like `passwd` of an ordinary user: its terminal reads a line without
   * echo, and it has done nothing for a second.
   */
  sure: boolean
  /**
   * How it reads: 'line' and 'secret' are lines from the terminal with and without echo, 'keys' are single keys, and
   * 'pipe' is the standard input of the process (`input: 'pipe'`).
   */
  how: 'line' | 'secret' | 'keys' | 'pipe'
  /** The name of the program. The kernel cuts it after 15 bytes. */
  program: string
  pid: number
  /** Whether it goes on by itself after some time, or at least wakes up, as editors do. */
  timed: boolean
}

export const processWaiting = reply<ProcessWaiting>({
  state: wordOf('reading', 'listening'),
  sure: boolean,
  how: wordOf('line', 'secret', 'keys', 'pipe'),
  program: text,
  pid: number,
  timed: boolean,
})
