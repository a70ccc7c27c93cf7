/**
 * Durable jobs on the server. Their cursors outlive the server, so following one does too.
 */
import { isCode } from '../../base/errors.js'
import type { Encoding, JobHandle, JobInfo, JobRead, JobStatus } from '../../calls/index.js'
import { jobRead, jobStartOptions } from '../../calls/jobs.js'
import { encodeOptions } from '../../protocol/codec.js'
import * as endpoints from '../../protocol/endpoints.js'
import type { JobReadPlan, JobStartPlan } from '../../requests/jobs.js'
import type { JobsBackend } from '../../sandbox/backend.js'
import type { Connection } from './connection.js'
import { ResumingStream } from './resuming.js'

export class HttpJobs implements JobsBackend {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  start(plan: JobStartPlan): Promise<JobHandle> {
    return this.#connection.call(endpoints.startJob, { body: encodeOptions(jobStartOptions, plan) })
  }

  status(jobId: string): Promise<JobStatus> {
    return this.#connection.call(endpoints.jobStatus, { params: { jobId } })
  }

  read(jobId: string, cursor: number, plan: JobReadPlan): Promise<JobRead<Encoding>> {
    const { encoding } = plan
    return this.#connection.call(endpoints.readJob, {
      params: { jobId },
      query: { cursor, ...plan },
      encoding,
    })
  }

  follow(
    jobId: string,
    cursor: number,
    { signal, ...plan }: JobReadPlan & { signal: AbortSignal | undefined },
  ): AsyncIterableIterator<JobRead<Encoding>, undefined> {
    return new ResumingStream<JobRead<Encoding>>(this.#connection, {
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

  wait(jobId: string, signal: AbortSignal | undefined): Promise<JobStatus> {
    const request = { params: { jobId }, signal, subject: 'the wait', isIdempotent: true }
    return this.#connection.call(endpoints.waitForJob, request)
  }

  async cancel(jobId: string, forceKillAfterDelay: number | undefined): Promise<void> {
    await this.#connection.call(endpoints.cancelJob, { params: { jobId }, body: { forceKillAfterDelay } })
  }

  async attach(jobId: string): Promise<JobHandle | null> {
    try {
      return await this.#connection.call(endpoints.getJob, { params: { jobId } })
    } catch (error) {
      if (isCode(error, 'JOB_NOT_FOUND')) return null
      throw error
    }
  }

  async list(): Promise<JobInfo[]> {
    return (await this.#connection.call(endpoints.listJobs)).jobs
  }

  async remove(jobId: string): Promise<void> {
    await this.#connection.call(endpoints.removeJob, { params: { jobId } })
  }
}
