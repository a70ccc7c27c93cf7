/**
 * Looks up one remote job by its id.
 */
import { type SandboxError, unknownId } from 'nacre/internal'
import { type Facts, readFacts } from './facts.js'
import { call, type RemotePlace } from './remote-call.js'

/** What is known of a job; with `detail`, its complete meta.json. Throws JOB_NOT_FOUND. */
export async function find(place: RemotePlace, jobId: string, detail?: 'whole'): Promise<Facts> {
  const [facts] = readFacts(await call(place, 'status', jobId, ...(detail === undefined ? [] : [detail])))
  if (facts === undefined) throw notFound(jobId)
  return facts
}

export function notFound(jobId: string): SandboxError {
  return unknownId('job', jobId)
}
