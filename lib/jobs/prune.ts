/**
 * What pruning removes: jobs that have ended, with everything that they started.
 */
import { isCode } from '../base/errors.js'
import type { JobInfo } from '../calls/index.js'

/** The names of the durable jobs of queues begin with it. */
export const QUEUE_LABEL = 'nacre-queue'

/**
 * The jobs that ended at least so many milliseconds ago. The time of a crashed job counts from its start. Those of queues
 * are left to their workers: until a worker has reported the end, the directory is the only record of it.
 */
export function prunable(jobs: JobInfo[], olderThan: number): JobInfo[] {
  const before = Date.now() - olderThan
  return jobs.filter(({ startTime, status, processName }) => {
    if (processName?.startsWith(`${QUEUE_LABEL}:`)) return false
    const time = (status.endTime ?? startTime)?.getTime() ?? 0
    return status.state !== 'running' && !status.alive && time <= before
  })
}

/** Removes jobs one by one: each takes a few system calls, or one request. Resolves to the ids of the removed jobs. */
export async function removeEnded(
  jobs: JobInfo[],
  remove: (jobId: string) => Promise<void>,
): Promise<string[]> {
  const removed: string[] = []
  for (const { jobId } of jobs) {
    try {
      await remove(jobId)
      removed.push(jobId)
    } catch (error) {
      // Part of the job was started again, or another call has removed it.
      if (!isCode(error, 'JOB_RUNNING', 'JOB_NOT_FOUND')) throw error
    }
  }
  return removed
}
