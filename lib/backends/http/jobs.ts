/**
 * Durable jobs on the server. Their cursors outlive the server, so following one does too.
 */
import { isCode } from '../../base/errors.js'
import { encodeOptions } from '../../protocol/codec.js'
import { jobStartOptions } from '../../protocol/job-options.js'
import * as replies from '../../protocol/replies.js'
import type { Encoding, JobHandle, JobInfo, JobRead, JobStatus } from '../../public/index.js'
import type { JobReadPlan, JobStartPlan } from '../../requests/jobs.js'
import type { JobsBackend } from '../../sandbox/backend.js'
import type { Reply } from '../../schema/reply.js'
import type { Connection } from './connection.js'
import type { Request } from './request.js'
import { ResumingStream } from './resuming.js'

export class HttpJobs implements JobsBackend {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  start(plan: JobStartPlan): Promise<JobHandle> {
    return this.#connection.call(
      { path: '/v1/jobs', body: encodeOptions(jobStartOptions, plan) },
      replies.jobHandle,
    )
  }

  status(jobId: string): Promise<JobStatus> {
    return this.#get(jobId, '/status', replies.jobStatus)
  }

  read(jobId: string, cursor: number, plan: JobReadPlan): Promise<JobRead<Encoding>> {
    return this.#get(jobId, '/output', replies.jobRead, {
      query: { cursor, ...plan },
      encoding: plan.encoding,
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
      value: (data) => ({ value: replies.jobRead.decode(data, plan.encoding), cursor: data.cursor }),
    })
  }

  wait(jobId: string, signal: AbortSignal | undefined): Promise<JobStatus> {
    const request = { path: `/v1/jobs/${jobId}/wait`, signal, subject: 'the wait' }
    return this.#connection.call({ ...request, waits: true, isIdempotent: true }, replies.jobStatus)
  }

  async cancel(jobId: string, forceKillAfterDelay: number | undefined): Promise<void> {
    const path = `/v1/jobs/${jobId}/cancel`
    await this.#connection.call({ path, body: { forceKillAfterDelay }, waits: true }, replies.empty)
  }

  async attach(jobId: string): Promise<JobHandle | null> {
    try {
      return await this.#get(jobId, '', replies.jobHandle)
    } catch (error) {
      if (isCode(error, 'JOB_NOT_FOUND')) return null
      throw error
    }
  }

  async list(): Promise<JobInfo[]> {
    return (await this.#connection.call({ method: 'GET', path: '/v1/jobs' }, replies.jobs)).jobs
  }

  async remove(jobId: string): Promise<void> {
    await this.#connection.call({ method: 'DELETE', path: `/v1/jobs/${jobId}` }, replies.empty)
  }

  #get<T>(jobId: string, what: string, reply: Reply<T>, rest?: Omit<Request, 'path'>): Promise<T> {
    return this.#connection.call({ method: 'GET', path: `/v1/jobs/${jobId}${what}`, ...rest }, reply)
  }
}
