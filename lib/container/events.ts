/**
 * Translates a background process's log to the events that containers pass on. Pure functions.
 */

import type { NativeProcess } from '../boundary/index.js'
import type { ExecEvent } from '../calls/container.js'
import type { Encoding, LogOutput } from '../calls/index.js'
import { timedOut } from './errors.js'
import { directoryMessage } from './exec.js'

/** The command of a stream and its start time. */
export interface Subject {
  command: string
  /** ISO 8601. */
  timestamp: string
  /** For the message of a timeout, in milliseconds; 0 = none. */
  timeoutMs: number
}

export function startEvent({ command, timestamp }: Subject, pid?: number): ExecEvent {
  return { type: 'start', timestamp, command, ...(pid !== undefined && { pid }) }
}

export function outputEvent({ type, time, data }: LogOutput<Encoding>): ExecEvent {
  return { type, timestamp: time.toISOString(), data: String(data) }
}

/** 128 plus the number of SIGTERM. */
const TERMINATED = 143

/**
 * The last event of a command that has ended. As in shells, the code of a signal is 128 plus its number.
 *
 * A killed command is not a success, even if it ended with 0: it may have handled the signal, or its shell was between two
 * programs. Containers recognize a killed command only by its code.
 */
export function endEvent(
  subject: Subject,
  { exitCode, signal, reason, endedAt = Date.now() }: NativeProcess,
  durationMs: number,
): ExecEvent {
  const timestamp = new Date(endedAt).toISOString()
  if (reason === 'timeout') return errorEvent(timedOut(subject.timeoutMs), timestamp)
  const own = exitCode ?? (signal === undefined ? undefined : 128 + signal)
  const code = reason === 'killed' && own === 0 ? TERMINATED : own
  if (code === undefined) return errorEvent('the command was lost, so its exit code is unknown', timestamp)
  return completeEvent(subject, code, durationMs, timestamp)
}

/** The events for a missing directory, which is a failed command and not an exception. */
export function refusedDirectoryEvents(subject: Subject, cwd: string): ExecEvent[] {
  const { timestamp } = subject
  return [
    startEvent(subject),
    { type: 'stderr', timestamp, data: `${directoryMessage(cwd)}\n` },
    completeEvent(subject, 1, 0, timestamp),
  ]
}

export function errorEvent(error: unknown, timestamp = new Date().toISOString()): ExecEvent {
  return { type: 'error', timestamp, error: error instanceof Error ? error.message : String(error) }
}

function completeEvent(
  { command, timestamp: started }: Subject,
  exitCode: number,
  durationMs: number,
  timestamp: string,
): ExecEvent {
  const duration = Math.max(durationMs, 0.001)
  const success = exitCode === 0
  const result = { stdout: '', stderr: '', exitCode, success, command, duration, timestamp: started } as const
  return { type: 'complete', timestamp, exitCode, result }
}
