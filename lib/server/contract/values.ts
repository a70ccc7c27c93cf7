/**
 * Values that several routes of containers share.
 */
import { z } from '@hono/zod-openapi'
import { engineError } from '../../base/errors.js'
import { signalNumber } from '../../base/signals.js'
import type { Backend, ProcessBackend } from '../../sandbox/backend.js'
import { readId } from '../../schema/names.js'
import { statusSchema, timestamp } from '../schemas.js'

export const processSchema = z
  .object({
    id: z.string(),
    pid: z.number(),
    command: z.string(),
    status: statusSchema,
    startTime: z.string(),
    endTime: z.string().optional(),
    exitCode: z.number().optional(),
  })
  .openapi('ContainerProcess')

/** The answer when a process was started. */
export const startedSchema = z.object({
  success: z.literal(true),
  processId: z.string(),
  pid: z.number(),
  command: z.string(),
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

export function showProcess({ info }: ProcessBackend): z.output<typeof processSchema> {
  const { id, pid, command, status, startTime, endTime } = info
  return {
    id,
    pid,
    command,
    status,
    startTime: startTime.toISOString(),
    ...(endTime && { endTime: endTime.toISOString(), exitCode: exitCodeOf(info) }),
  }
}

/** Rejects with PROCESS_NOT_FOUND. */
export async function requireProcess(backend: Backend, id: string): Promise<ProcessBackend> {
  const process = await backend.findProcess(readId(id))
  if (process === null) throw engineError('PROCESS_NOT_FOUND', `there is no process '${id}'`)
  return process
}

/** Variables for one command: null and undefined are skipped. */
export function givenVariables(env: Record<string, string | null> | undefined): Record<string, string> {
  const given = Object.entries(env ?? {}).filter(([, value]) => value !== null)
  return Object.fromEntries(given) as Record<string, string>
}
