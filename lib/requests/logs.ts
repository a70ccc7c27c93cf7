/**
 * Checks the options for reading logs, listing processes and killing them.
 */

import { killReason } from '../calls/exit.js'
import type { ProcessStatus } from '../calls/index.js'
import { type logLinesOptions, logStreamOptions } from '../calls/logs.js'
import { killOptions, PROCESS_STATUSES } from '../calls/process.js'
import { oneOf } from '../schema/constructors.js'
import type { CompleteValues } from '../schema/kind.js'
import { identifier } from '../schema/names.js'
import { readArgument, readOptions, readWithDefaults } from '../schema/read.js'
import { killSignal } from '../schema/signals.js'

/** Which part of a log to read, and in which form. */
export type LogStreamPlan = CompleteValues<typeof logStreamOptions>

/** Checks the options of `output` and `streamProcessLogs`. Throws OptionError. */
export function planLogStream(options: unknown, owner: string): LogStreamPlan {
  return readWithDefaults(logStreamOptions, options, owner)
}

/** Which lines of a log to read. */
export type LogLinesPlan = CompleteValues<typeof logLinesOptions>

/** How to kill a process. Undefined: as in the process's options. */
export interface KillRequest {
  signal: number | undefined
  /** Milliseconds until SIGKILL. */
  forceKillAfterDelay: number | undefined
  reason?: string | undefined
  /** Default: 'caller'. */
  by?: 'abort' | 'caller' | undefined
}

/** Checks the arguments of `kill` and `killProcess`. Throws OptionError. */
export function readKill(signal: unknown, options: unknown, owner: string): KillRequest {
  const { forceKillAfterDelay, reason } = readOptions(killOptions, options, owner)
  return { signal: readSignal(signal), forceKillAfterDelay, reason }
}

/** How to kill a command. Undefined: its `killSignal`. */
export interface CommandKill {
  signal: number | undefined
  reason: string | undefined
}

/** Checks the arguments of `kill` of a stream, and of `killCommand`. Throws OptionError. */
export function readCommandKill(signal: unknown, options: unknown, owner: string): CommandKill {
  return { signal: readSignal(signal), ...readWithDefaults(killReason, options, owner) }
}

function readSignal(signal: unknown): number | undefined {
  return signal === undefined ? undefined : readArgument(killSignal.read, signal, 'signal')
}

const status = oneOf(PROCESS_STATUSES, `must be one of ${PROCESS_STATUSES.join(', ')}, or a list of them`)

/** Which processes to list. */
export interface ProcessFilter {
  status?: Set<ProcessStatus>
  sessionId?: string
}

/** Checks the filter of `listProcesses`. Throws OptionError. */
export function planFilter(filter: unknown): ProcessFilter {
  return readOptions({ status: statuses, sessionId: identifier }, filter, 'listProcesses')
}

/** One status or a list of them. */
function statuses(value: unknown, name: string): Set<ProcessStatus> {
  const list: unknown[] = Array.isArray(value) ? Array.from(value) : [value]
  return new Set(list.map((item) => status.read(item, name)))
}
