/**
 * The public object for durable jobs, on any backend. Every call reads the job itself and keeps no state, so another
 * program may have started the job.
 */
import { calledBy } from '../base/call-site.js'
import type {
  Encoding,
  JobCancelOptions,
  JobFilter,
  JobFollowOptions,
  JobHandle,
  JobInfo,
  JobPruneOptions,
  JobRead,
  JobReadOptions,
  JobStartOptions,
  JobStatus,
  JobWaitOptions,
  Jobs as PublicJobs,
} from '../calls/index.js'
import { prunable, removeEnded } from '../jobs/prune.js'
import { planOf } from '../protocol/endpoint.js'
import { jobCalls } from '../protocol/simple-calls.js'
import {
  jobReference,
  planJobCancel,
  planJobFollow,
  planJobList,
  planJobPrune,
  planJobStart,
  readCursor,
} from '../requests/jobs.js'
import { readId } from '../schema/names.js'
import type { JobsBackend } from './backend.js'

export class Jobs implements Omit<PublicJobs, 'root'> {
  readonly #backend: JobsBackend

  constructor(backend: JobsBackend) {
    this.#backend = backend
  }

  async start(options: JobStartOptions): Promise<JobHandle> {
    return this.#backend.start(planJobStart(options))
  }

  async status(job: JobHandle | string): Promise<JobStatus> {
    return this.#backend.status({ jobId: jobReference(job) })
  }

  async read<E extends Encoding = 'utf8'>(
    job: JobHandle | string,
    cursor?: number,
    options?: JobReadOptions<E>,
  ): Promise<JobRead<E>> {
    const part = { jobId: jobReference(job), cursor: readCursor(cursor) }
    return (await this.#backend.read({ ...part, ...planOf(jobCalls.read, options) })) as JobRead<E>
  }

  follow<E extends Encoding = 'utf8'>(
    job: JobHandle | string,
    cursor?: number,
    options?: JobFollowOptions<E>,
  ): AsyncIterableIterator<JobRead<E>, undefined> {
    const [jobId, place, plan] = [jobReference(job), readCursor(cursor), planJobFollow(options)]
    return this.#backend.follow(jobId, place, plan) as AsyncIterableIterator<JobRead<E>, undefined>
  }

  async wait(job: JobHandle | string, options?: JobWaitOptions): Promise<JobStatus> {
    const plan = { jobId: jobReference(job), ...planOf(jobCalls.wait, options) }
    return calledBy(this.wait, this.#backend.wait(plan))
  }

  async cancel(job: JobHandle | string, options?: JobCancelOptions): Promise<void> {
    const [jobId, { forceKillAfterDelay }] = [jobReference(job), planJobCancel(options)]
    await this.#backend.cancel(jobId, forceKillAfterDelay)
  }

  async attach(id: string): Promise<JobHandle | null> {
    return this.#backend.attach(readId(id, 'jobId'))
  }

  async list(filter?: JobFilter): Promise<JobInfo[]> {
    const { state, processName } = planJobList(filter)
    return (await this.#backend.list()).filter(
      (job) =>
        (state === undefined || job.status.state === state) &&
        (processName === undefined || job.processName === processName),
    )
  }

  async remove(job: JobHandle | string): Promise<void> {
    await this.#backend.remove({ jobId: jobReference(job) })
  }

  async prune(options?: JobPruneOptions): Promise<string[]> {
    const olderThan = planJobPrune(options)
    const ended = prunable(await this.#backend.list(), olderThan)
    return removeEnded(ended, (jobId) => this.#backend.remove({ jobId }))
  }
}

/** Jobs in a directory of this machine. */
export class RootedJobs extends Jobs implements PublicJobs {
  /** The directory of all jobs. */
  readonly root: string

  constructor(backend: JobsBackend, root: string) {
    super(backend)
    this.root = root
  }
}
