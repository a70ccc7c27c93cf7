/**
 * Durable jobs on the server. Their cursors outlive the server, so following one does too.
 */
import type { RemoteJobs as PublicJobs } from '../../client.js'
import type {
  Encoding,
  JobCancelOptions,
  JobFollowOptions,
  JobHandle,
  JobInfo,
  JobRead,
  JobReadOptions,
  JobStartOptions,
  JobStatus,
} from '../../index.js'
import { SandboxError } from '../errors.js'
import { identifier } from '../options/ids.js'
import {
  jobReference,
  planJobCancel,
  planJobFollow,
  planJobRead,
  planJobStart,
  planJobWait,
  readCursor,
} from '../options/jobs.js'
import { readArgument } from '../options/read.js'
import { encodeOptions } from '../protocol/codec.js'
import { jobStartOptions } from '../protocol/job-options.js'
import type { Connection, Request } from './connection.js'
import { ResumingStream } from './resuming.js'
import { jobInfoOf, jobReadOf, jobStatusOf, type WireJobInfo, type WireRead } from './wire.js'

export class RemoteJobs implements PublicJobs {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async start(options: JobStartOptions): Promise<JobHandle> {
    const body = encodeOptions(jobStartOptions, planJobStart(options))
    return this.#connection.call({ path: '/v1/jobs', body })
  }

  async status(job: JobHandle | string): Promise<JobStatus> {
    return jobStatusOf(await this.#get(job, 'status'))
  }

  async read<E extends Encoding = 'utf8'>(
    job: JobHandle | string,
    cursor?: number,
    options?: JobReadOptions<E>,
  ): Promise<JobRead<E>> {
    const plan = planJobRead(options)
    const read = await this.#get<WireRead>(job, 'output', { cursor: readCursor(cursor), ...plan })
    return jobReadOf(read, plan.encoding) as JobRead<E>
  }

  follow<E extends Encoding = 'utf8'>(
    job: JobHandle | string,
    cursor?: number,
    options?: JobFollowOptions<E>,
  ): AsyncIterableIterator<JobRead<E>, undefined> {
    const path = pathOf(job, 'follow')
    const { signal, ...plan } = planJobFollow(options)
    const stream: AsyncIterableIterator<JobRead<Encoding>, undefined> = new ResumingStream(this.#connection, {
      cursor: readCursor(cursor),
      signal,
      subject: 'following the job',
      request: (place) => ({ method: 'GET', path, query: { cursor: place, ...plan } }),
      value: (data) => ({ value: jobReadOf(data, plan.encoding), cursor: data.cursor }),
    })
    return stream as AsyncIterableIterator<JobRead<E>, undefined>
  }

  async wait(job: JobHandle | string, options?: { signal?: AbortSignal }): Promise<JobStatus> {
    const { signal } = planJobWait(options)
    const request = { path: pathOf(job, 'wait'), signal, subject: 'the wait' }
    return jobStatusOf(await this.#connection.call({ ...request, waits: true, isIdempotent: true }))
  }

  async cancel(job: JobHandle | string, options?: JobCancelOptions): Promise<void> {
    await this.#connection.call({ path: pathOf(job, 'cancel'), body: planJobCancel(options), waits: true })
  }

  async attach(id: string): Promise<JobHandle | null> {
    const jobId = readArgument(identifier, id, 'jobId')
    try {
      return await this.#get<JobHandle>(jobId, '')
    } catch (error) {
      if (error instanceof SandboxError && error.code === 'JOB_NOT_FOUND') return null
      throw error
    }
  }

  async list(): Promise<JobInfo[]> {
    const { jobs } = await this.#connection.call<{ jobs: WireJobInfo[] }>({ method: 'GET', path: '/v1/jobs' })
    return jobs.map(jobInfoOf)
  }

  async remove(job: JobHandle | string): Promise<void> {
    await this.#connection.call({ method: 'DELETE', path: pathOf(job, '') })
  }

  #get<T>(job: JobHandle | string, what: string, query?: Request['query']): Promise<T> {
    return this.#connection.call<T>({ method: 'GET', path: pathOf(job, what), query })
  }
}

function pathOf(job: JobHandle | string, what: string): string {
  return `/v1/jobs/${jobReference(job)}${what === '' ? '' : `/${what}`}`
}
