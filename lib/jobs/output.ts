/**
 * Reads and follows a job's output, for any backend that can fetch a part of it.
 */

import type { Encoding, JobRead } from '../calls/index.js'
import type { JobReadPlan } from '../requests/jobs.js'
import { Following, type Source } from './follow.js'
import { type Fetched, readJob } from './read.js'

/** What a backend provides for that. */
export interface OutputBackend {
  fetch: (jobId: string, cursor: number, maxBytes: number) => Promise<Fetched>
  /** Notifies a follower of more output. */
  watch: (jobId: string) => Source['news']
  /** Maximum bytes that one fetch returns. */
  mostBytes: number
}

export async function readOutput(
  backend: OutputBackend,
  jobId: string,
  cursor: number,
  plan: JobReadPlan,
): Promise<JobRead<Encoding>> {
  const { read } = await readJob(fetchOf(backend, jobId), cursor, bounded(plan, backend))
  return read
}

export function followOutput(
  backend: OutputBackend,
  jobId: string,
  cursor: number,
  plan: JobReadPlan & { signal: AbortSignal | undefined },
): AsyncIterableIterator<JobRead<Encoding>, undefined> {
  const source = {
    read: (from: number) => readJob(fetchOf(backend, jobId), from, bounded(plan, backend)),
    news: backend.watch(jobId),
  }
  return new Following(source, cursor, plan.signal)
}

function fetchOf({ fetch }: OutputBackend, jobId: string) {
  return (cursor: number, maxBytes: number) => fetch(jobId, cursor, maxBytes)
}

function bounded(plan: JobReadPlan, { mostBytes }: OutputBackend): JobReadPlan {
  return { ...plan, maxBytes: Math.min(plan.maxBytes, mostBytes) }
}
