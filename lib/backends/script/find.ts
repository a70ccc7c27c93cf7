/**
 * One remote job by its id.
 */
import { engineError, type SandboxError } from '../../base/errors.js'
import { type Facts, readFacts } from './facts.js'
import { call, type RemotePlace } from './remote-call.js'

/** What there is to know of a job, with all of its meta.json when that is wanted. Throws JOB_NOT_FOUND. */
export async function find(place: RemotePlace, jobId: string, detail?: 'whole'): Promise<Facts> {
  const [facts] = readFacts(await call(place, 'status', jobId, ...(detail === undefined ? [] : [detail])))
  if (facts === undefined) throw notFound(jobId)
  return facts
}

export function notFound(jobId: string): SandboxError {
  return engineError('JOB_NOT_FOUND', `there is no job '${jobId}'`)
}
