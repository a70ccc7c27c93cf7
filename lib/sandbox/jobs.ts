/**
 * The public object for durable jobs, on any backend. Every call reads the job itself and keeps no state, so another
 * program may have started the job.
 */
import { calledBy } from '../base/call-site.js'
import type * as api from '../calls/index.js'
import { jobListOptions, jobPruneOptions } from '../calls/jobs.js'
import { prunable, removeEnded } from '../jobs/prune.js'
import { planOf } from '../protocol/endpoint.js'
import { jobCalls } from '../protocol/simple-calls.js'
import { jobReference, planJobCancel, planJobFollow, planJobStart, readCursor } from '../requests/jobs.js'
import { readId } from '../schema/names.js'
import { readOptions, readWithDefaults } from '../schema/read.js'
import type { JobsBackend } from './backend.js'

export class Jobs implements Omit<api.Jobs, 'root'> {
  readonly #backend: JobsBackend

  constructor(backend: JobsBackend) {
    this.#backend = backend
  }

  async start(options: api.JobStartOptions): Promise<api.JobHandle> {
    return this.#backend.start(planJobStart(options))
  }

  async status(job: api.JobHandle | string): Promise<api.JobStatus> {
    return this.#backend.status({ jobId: jobReference(job) })
  }

  async read<E extends api.Encoding = 'utf8'>(
    job: api.JobHandle | string,
    cursor?: number,
    options?: api.JobReadOptions<E>,
  ): Promise<api.JobRead<E>> {
    const part = { jobId: jobReference(job), cursor: readCursor(cursor) }
    return (await this.#backend.read({ ...part, ...planOf(jobCalls.read, options) })) as api.JobRead<E>
  }

  follow<E extends api.Encoding = 'utf8'>(
    job: api.JobHandle | string,
    cursor?: number,
    options?: api.JobFollowOptions<E>,
  ): AsyncIterableIterator<api.JobRead<E>, undefined> {
    const [jobId, place, plan] = [jobReference(job), readCursor(cursor), planJobFollow(options)]
    return this.#backend.follow(jobId, place, plan) as AsyncIterableIterator<api.JobRead<E>, undefined>
  }

  async wait(job: api.JobHandle | string, options?: api.JobWaitOptions): Promise<api.JobStatus> {
    const plan = { jobId: jobReference(job), ...planOf(jobCalls.wait, options) }
    return calledBy(this.wait, this.#backend.wait(plan))
  }

  async cancel(job: api.JobHandle | string, options?: api.JobCancelOptions): Promise<void> {
    const [jobId, { forceKillAfterDelay }] = [jobReference(job), planJobCancel(options)]
    await this.#backend.cancel(jobId, forceKillAfterDelay)
  }

  async attach(id: string): Promise<api.JobHandle | null> {
    return this.#backend.attach(readId(id, 'jobId'))
  }

  async list(filter?: api.JobFilter): Promise<api.JobInfo[]> {
    const { state, processName } = readOptions(jobListOptions, filter, 'jobs.list')
    return (await this.#backend.list()).filter(
      (job) =>
        (state === undefined || job.status.state === state) &&
        (processName === undefined || job.processName === processName),
    )
  }

  async remove(job: api.JobHandle | string): Promise<void> {
    await this.#backend.remove({ jobId: jobReference(job) })
  }

  async prune(options?: api.JobPruneOptions): Promise<string[]> {
    const { olderThan } = readWithDefaults(jobPruneOptions, options, 'jobs.prune')
    const ended = prunable(await this.#backend.list(), olderThan)
    return removeEnded(ended, (jobId) => this.#backend.remove({ jobId }))
  }
}

/** Jobs in a directory of this machine. */
export class RootedJobs extends Jobs implements api.Jobs {
  /** The directory of all jobs. */
  readonly root: string

  constructor(backend: JobsBackend, root: string) {
    super(backend)
    this.root = root
  }
}
