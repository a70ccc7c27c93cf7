/**
 * A job's output as callers ask for it, once and again: the arguments checked, then read and followed, for any backend.
 */

import { type JobReadPlan, jobReference, planJobFollow, planJobRead, readCursor } from '../options/jobs.js'
import type { Encoding, JobFollowOptions, JobHandle, JobRead, JobReadOptions } from '../public/index.js'
import { follow, type Source } from './follow.js'
import { type Fetched, readJob } from './read.js'

/** What a backend does for it. */
export interface OutputBackend {
  fetch: (jobId: string, cursor: number, maxBytes: number) => Promise<Fetched>
  /** How one who follows a job learns that there is more. */
  watch: (jobId: string) => Source['news']
  /** The most that one fetch can bring. */
  mostBytes: number
}

export async function readOutput<E extends Encoding>(
  backend: OutputBackend,
  job: JobHandle | string,
  cursor: number | undefined,
  options: JobReadOptions<E> | undefined,
): Promise<JobRead<E>> {
  const [jobId, place, plan] = [jobReference(job), readCursor(cursor), planJobRead(options)]
  const { read } = await readJob(fetchOf(backend, jobId), place, bounded(plan, backend))
  return read as JobRead<E>
}

export function followOutput<E extends Encoding>(
  backend: OutputBackend,
  job: JobHandle | string,
  cursor: number | undefined,
  options: JobFollowOptions<E> | undefined,
): AsyncIterableIterator<JobRead<E>, undefined> {
  const [jobId, place, plan] = [jobReference(job), readCursor(cursor), planJobFollow(options)]
  const source = {
    read: (from: number) => readJob(fetchOf(backend, jobId), from, bounded(plan, backend)),
    news: backend.watch(jobId),
  }
  return follow(source, place, plan.signal) as AsyncIterableIterator<JobRead<E>, undefined>
}

function fetchOf({ fetch }: OutputBackend, jobId: string) {
  return (cursor: number, maxBytes: number) => fetch(jobId, cursor, maxBytes)
}

function bounded(plan: JobReadPlan, { mostBytes }: OutputBackend): JobReadPlan {
  return { ...plan, maxBytes: Math.min(plan.maxBytes, mostBytes) }
}
