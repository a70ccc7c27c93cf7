/**
 * Values that several routes of containers share.
 */

import type { EnvChanges, ProcessInfo } from 'nacre'
import { kinds, signalNumber, unknownId } from 'nacre/internal'
import { type backends, replies } from 'nacre/internal/server'

/** The words of containers for the state of a process. */
export const STATUSES = ['running', 'completed', 'failed', 'killed', 'error'] as const

export type ContainerStatus = (typeof STATUSES)[number]

export interface ContainerProcess extends Pick<ProcessInfo, 'id' | 'pid' | 'command'> {
  status: ContainerStatus
  startTime: string
  endTime?: string
  exitCode?: number
}

export const containerProcess = replies.reply<ContainerProcess>(
  {
    id: replies.text,
    pid: replies.number,
    command: replies.text,
    status: replies.wordOf(...STATUSES),
    startTime: replies.text,
    endTime: replies.optional(replies.text),
    exitCode: replies.optional(replies.number),
  },
  'ContainerProcess',
)

/** When a reply was made. */
export const timestamp = { ...replies.text, description: 'ISO 8601' }

/** Of calls that have no result. */
export const doneReply = replies.reply({ success: replies.yes, timestamp })

export function done<T>(values: T): T & { success: true; timestamp: string } {
  return { success: true, ...values, timestamp: now() }
}

/** The answer when a process was started. */
export const startedReply = replies.reply({
  success: replies.yes,
  processId: replies.text,
  pid: replies.number,
  command: replies.text,
  timestamp,
})

export function now(): string {
  return new Date().toISOString()
}

/** As in shells, where an end is only a number: 128 and the signal; 1 when it is unknown. Never null. */
export function exitCodeOf({ exitCode, signal }: { exitCode: number | null; signal: string | null }): number {
  if (exitCode !== null) return exitCode
  const number = signal === null ? undefined : signalNumber(signal)
  return number === undefined ? 1 : 128 + number
}

export function showProcess({ info }: backends.ProcessBackend): ContainerProcess {
  const { id, pid, command, startTime, endTime } = info
  return {
    id,
    pid,
    command,
    status: statusOf(info),
    startTime: startTime.toISOString(),
    ...(endTime && { endTime: endTime.toISOString(), exitCode: exitCodeOf(info) }),
  }
}

/** Clients of containers know 'killed' for kills by their call alone, and no start that is not over. */
function statusOf({ status, reason }: ProcessInfo): ContainerStatus {
  if (status === 'starting') return 'running'
  return status === 'killed' && reason !== 'killed' ? 'failed' : status
}

/** Rejects with PROCESS_NOT_FOUND. */
export async function requireProcess(
  backend: backends.Backend,
  id: string,
): Promise<backends.ProcessBackend> {
  const process = await backend.findProcess(kinds.readId(id))
  if (process === null) throw unknownId('process', id)
  return process
}

/** Variables for one command: those to unset are skipped. */
export function givenVariables(env: EnvChanges | undefined): Record<string, string> {
  const given = Object.entries(env ?? {}).filter(([, value]) => value !== undefined)
  return Object.fromEntries(given) as Record<string, string>
}
