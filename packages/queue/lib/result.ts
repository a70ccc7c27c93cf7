/**
 * How an attempt has ended: as BullMQ stores it, and as callers see it.
 */
import type { JobStatus } from 'nacre'
import type { AttemptRef } from './keys.js'
import type { QueueResult } from './public.js'

/** A result as JSON, which is BullMQ's `returnvalue`. */
export type StoredResult = Omit<QueueResult, 'startTime' | 'endTime'> & {
  startTime: string | null
  endTime: string | null
}

/** What every result of an attempt says. */
interface Place extends AttemptRef {
  host: string | null
  /** The id of the durable job. */
  jobId: string
}

/** The result of an attempt whose command has ended. */
export function endedResult(
  place: Place,
  status: JobStatus,
  { bytes, check }: { bytes: number; check: boolean },
): StoredResult {
  const { exitCode, signal, reason, endTime, duration, outputLost } = status
  const startTime = endTime === null || duration === null ? null : new Date(endTime.getTime() - duration)
  return {
    ...head(place),
    exitCode,
    signal,
    reason,
    error: failureOf(status, check),
    startTime: startTime?.toISOString() ?? null,
    endTime: endTime?.toISOString() ?? null,
    duration,
    bytes,
    ...(outputLost && { outputLost }),
  }
}

/** The result of an attempt without an end of its own. */
export function failedResult(
  place: Place,
  reason: 'start-failed' | 'host-lost' | 'cancelled',
  error: string,
  code: string | null,
): StoredResult {
  return { ...head(place), reason, error, code, endTime: new Date().toISOString() }
}

function head({ attempt, host, jobId }: Place): StoredResult {
  const none = { exitCode: null, signal: null, reason: null, error: null, code: null, duration: null }
  return { ...none, host, attempt, jobId, startTime: null, endTime: null, bytes: 0 }
}

/** Why an attempt counts as failed; null when it does not. A cancelled command may still end with code 0. */
function failureOf({ state, exitCode, signal, reason }: JobStatus, check: boolean): string | null {
  if (state === 'crashed')
    return `the job crashed (${reason ?? 'unknown'}): how its command ended was not recorded`
  if (exitCode === 0 && (reason === 'exit' || reason === null)) return null
  if (reason === 'cancelled') return 'the job was cancelled'
  if (!check) return null
  const end = signal === null ? `exited with code ${exitCode}` : `was ended by ${signal}`
  if (reason === 'timeout') return `the command ran longer than its timeout and ${end}`
  if (reason === 'oom') return `the command exceeded its memory limit and ${end}`
  return `the command ${end}`
}

/** Whether another attempt could end otherwise, and may be made. */
export function mayRetry({ reason, code }: StoredResult, onHostLost: 'fail' | 'retry'): boolean {
  if (reason === 'host-lost') return onHostLost === 'retry'
  return reason !== 'cancelled' && code?.startsWith('INVALID_') !== true
}

/** A stored result with dates; null for the results of other programs. */
export function publicResult(stored: unknown): QueueResult | null {
  if (typeof stored !== 'object' || stored === null || !('attempt' in stored) || !('reason' in stored))
    return null
  const { startTime, endTime, ...rest } = stored as StoredResult
  return { ...rest, startTime: dateOf(startTime), endTime: dateOf(endTime) }
}

function dateOf(text: string | null | undefined): Date | null {
  const date = new Date(text ?? '')
  return Number.isNaN(date.getTime()) ? null : date
}
