/**
 * Durable jobs on the server. Their cursors outlive the server, so following one does too.
 */
import { isCode } from '../../base/errors.js'
import { encodeOptions } from '../../protocol/codec.js'
import { jobStartOptions } from '../../protocol/job-options.js'
import type { Encoding, JobHandle, JobInfo, JobRead, JobStatus } from '../../public/index.js'
import type { JobReadPlan, JobStartPlan } from '../../requests/jobs.js'
import type { JobsBackend } from '../../sandbox/backend.js'
import type { Connection } from './connection.js'
import { listOf } from './malformed.js'
import type { Request } from './request.js'
import { ResumingStream } from './resuming.js'
import { jobInfoOf, jobReadOf, jobStatusOf, type WireJobInfo, type WireRead } from './wire.js'

export class HttpJobs implements JobsBackend {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  start(plan: JobStartPlan): Promise<JobHandle> {
    return this.#connection.call({ path: '/v1/jobs', body: encodeOptions(jobStartOptions, plan) })
  }

  async status(jobId: string): Promise<JobStatus> {
    return jobStatusOf(await this.#get(jobId, '/status'))
  }

  async read(jobId: string, cursor: number, plan: JobReadPlan): Promise<JobRead<Encoding>> {
    return jobReadOf(await this.#get<WireRead>(jobId, '/output', { cursor, ...plan }), plan.encoding)
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
      value: (data) => ({ value: jobReadOf(data, plan.encoding), cursor: data.cursor }),
    })
  }

  async wait(jobId: string, signal: AbortSignal | undefined): Promise<JobStatus> {
    const request = { path: `/v1/jobs/${jobId}/wait`, signal, subject: 'the wait' }
    return jobStatusOf(await this.#connection.call({ ...request, waits: true, isIdempotent: true }))
  }

  async cancel(jobId: string, forceKillAfterDelay: number | undefined): Promise<void> {
    const path = `/v1/jobs/${jobId}/cancel`
    await this.#connection.call({ path, body: { forceKillAfterDelay }, waits: true })
  }

  async attach(jobId: string): Promise<JobHandle | null> {
    try {
      return await this.#get<JobHandle>(jobId, '')
    } catch (error) {
      if (isCode(error, 'JOB_NOT_FOUND')) return null
      throw error
    }
  }

  async list(): Promise<JobInfo[]> {
    const { jobs } = await this.#connection.call<{ jobs: WireJobInfo[] }>({ method: 'GET', path: '/v1/jobs' })
    return listOf(jobs).map(jobInfoOf)
  }

  async remove(jobId: string): Promise<void> {
    await this.#connection.call({ method: 'DELETE', path: `/v1/jobs/${jobId}` })
  }

  #get<T>(jobId: string, what: string, query?: Request['query']): Promise<T> {
    return this.#connection.call<T>({ method: 'GET', path: `/v1/jobs/${jobId}${what}`, query })
  }
}
