/**
 * Checks the options for reading logs, listing processes and killing them.
 */

import { killOptions } from '../protocol/process-options.js'
import { logOptions, logStreamOptions } from '../protocol/wait-options.js'
import type { Encoding, ProcessStatus } from '../public/index.js'
import { oneOf } from '../schema/constructors.js'
import { identifier } from '../schema/names.js'
import { PROCESS_STATUSES } from '../schema/process.js'
import { readArgument, readOptions } from '../schema/read.js'
import { killSignal } from '../schema/signals.js'

/** Which part of a log to read, and in which form. */
export interface LogStreamPlan {
  /** Offset in bytes in the whole log. */
  since: number
  /** Continue reading until the process has ended. */
  follow: boolean
  signal: AbortSignal | undefined
  encoding: Encoding
}

/** Checks the options of `output` and `streamProcessLogs`. Throws OptionError. */
export function planLogStream(options: unknown, owner: string): LogStreamPlan {
  const {
    since = 0,
    follow = true,
    signal,
    encoding = 'utf8',
  } = readOptions(logStreamOptions, options, owner)
  return { since, follow, signal, encoding }
}

/** Checks the options of `getLogs` and `getProcessLogs`. Throws OptionError. */
export function planLogs(options: unknown, owner: string): { encoding: Encoding } {
  const { encoding: chosen = 'utf8' } = readOptions(logOptions, options, owner)
  return { encoding: chosen }
}

/** How to kill a process. Undefined: as in the process's options. */
export interface KillRequest {
  signal: number | undefined
  /** Milliseconds until SIGKILL. */
  forceKillAfterDelay: number | undefined
}

/** Checks the arguments of `kill` and `killProcess`. Throws OptionError. */
export function readKill(signal: unknown, options: unknown, owner: string): KillRequest {
  const { forceKillAfterDelay } = readOptions(killOptions, options, owner)
  const number = signal === undefined ? undefined : readArgument(killSignal.read, signal, 'signal')
  return { signal: number, forceKillAfterDelay }
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
