/** Jobs of BullMQ as callers see them. */
import { Job, type Queue } from 'bullmq'
import { commandOf } from './data.js'
import type { Ending } from './finished.js'
import { QUEUE_STATES } from './kinds.js'
import type { QueueJob } from './public.js'
import type { Scripts } from './redis.js'
import { publicResult } from './result.js'

/** Where an attempt is. */
export interface Location {
  host: string
  state: string
  /** JSON, once it has ended. */
  result: string
  /** Its lease has run out. */
  isLost: boolean
}

/** undefined before a host has claimed the attempt, and when that was long ago. */
export async function locate(scripts: Scripts, id: string, attempt: number): Promise<Location | undefined> {
  const [host, state = '', result = '', lost] = await scripts.call<string[]>('find', id, attempt)
  return host === undefined ? undefined : { host, state, result, isLost: lost === '1' }
}

/** The jobs in these states, one state after the other. BullMQ would skip `offset` jobs of each state. */
export async function jobsIn(
  queue: Queue,
  states: ReadonlyArray<(typeof QUEUE_STATES)[number]>,
  offset: number,
  limit: number,
): Promise<Job[]> {
  const counts = await queue.getJobCounts(...states)
  const jobs: Job[] = []
  let skip = offset
  for (const state of states) {
    const count = counts[state] ?? 0
    const last = Math.min(skip + limit - jobs.length, count) - 1
    if (last >= skip) jobs.push(...(await queue.getJobs([state], skip, last)))
    skip = Math.max(0, skip - count)
  }
  return jobs.filter((job) => job !== undefined)
}

/** Reads the state of a job, and where it is. */
export async function viewOf(queue: Queue, scripts: Scripts, given: Job): Promise<QueueJob> {
  const found = await given.getState()
  const state = QUEUE_STATES.find((known) => known === found) ?? 'unknown'
  const isFinished = state === 'completed' || state === 'failed'
  // What was read before the job finished has no result.
  const isOld = isFinished && given.finishedOn === undefined
  const job = isOld ? ((await Job.fromId(queue, given.id ?? '')) ?? given) : given
  const attempt = isFinished ? Math.max(1, job.attemptsMade) : job.attemptsMade + 1
  const id = job.id ?? ''
  const result = isFinished ? publicResult(job.returnvalue) : null
  return {
    id,
    state,
    command: commandOf(job.data),
    attempt: result?.attempt ?? attempt,
    host: result === null ? ((await locate(scripts, id, attempt))?.host ?? null) : result.host,
    progress: result?.bytes ?? progressOf(job.progress, attempt),
    result,
    failedReason: state === 'failed' ? (job.failedReason ?? null) : null,
    createdAt: new Date(job.timestamp),
    startTime: dateOf(job.processedOn),
    endTime: dateOf(job.finishedOn),
  }
}

/**
 * A job that is not in the queue any more: the event of its end and its claim have the result. undefined when it was removed
 * without an end.
 */
export async function viewOfGone(
  scripts: Scripts,
  last: QueueJob,
  ending: Ending | undefined,
): Promise<QueueJob | undefined> {
  if (ending?.state === 'removed') return undefined
  const stored =
    ending?.returnvalue ?? JSON.parse((await locate(scripts, last.id, last.attempt))?.result || 'null')
  const result = publicResult(stored)
  if (ending === undefined && result === null) return undefined
  const state = ending?.state ?? (result?.error === null ? 'completed' : 'failed')
  const failedReason = ending?.failedReason ?? result?.error ?? null
  return { ...last, state, result, failedReason, endTime: new Date() }
}

function progressOf(progress: unknown, attempt: number): number {
  if (typeof progress !== 'object' || progress === null) return 0
  const { bytes, attempt: of } = progress as { bytes?: unknown; attempt?: unknown }
  return typeof bytes === 'number' && of === attempt ? bytes : 0
}

function dateOf(time: number | undefined): Date | null {
  return typeof time === 'number' ? new Date(time) : null
}
