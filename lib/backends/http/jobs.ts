/**
 * Durable jobs on the server. Their cursors outlive the server, so following one does too.
 */
import { ignoring } from '../../base/errors.js'
import type { Encoding, JobHandle, JobRead } from '../../calls/index.js'
import { jobRead, jobStartOptions } from '../../calls/jobs.js'
import { encodeOptions } from '../../protocol/codec.js'
import * as endpoints from '../../protocol/endpoints.js'
import { jobCalls } from '../../protocol/simple-calls.js'
import type { JobFollowPlan, JobStartPlan } from '../../requests/jobs.js'
import type { JobsBackend } from '../../sandbox/backend.js'
import { ResumingStream } from './resuming.js'
import { withCalls } from './simple-calls.js'

export class HttpJobs extends withCalls(jobCalls) implements JobsBackend {
  start(plan: JobStartPlan): Promise<JobHandle> {
    return this.connection.call(endpoints.startJob, { body: encodeOptions(jobStartOptions, plan) })
  }

  follow(
    jobId: string,
    cursor: number,
    { signal, ...plan }: JobFollowPlan,
  ): AsyncIterableIterator<JobRead<Encoding>, undefined> {
    return new ResumingStream<JobRead<Encoding>>(this.connection, {
      cursor,
      signal,
      subject: 'following the job',
      request: (place) => ({
        method: 'GET',
        path: `/v1/jobs/${jobId}/follow`,
        query: { cursor: place, ...plan },
      }),
      value: (data) => ({ value: jobRead.decode(data, plan.encoding), cursor: data.cursor }),
    })
  }

  async cancel(jobId: string, forceKillAfterDelay: number | undefined): Promise<void> {
    await this.connection.call(endpoints.cancelJob, { params: { jobId }, body: { forceKillAfterDelay } })
  }

  async attach(jobId: string): Promise<JobHandle | null> {
    const call = this.connection.call(endpoints.getJob, { params: { jobId } })
    return (await ignoring(call, 'JOB_NOT_FOUND')) ?? null
  }
}
