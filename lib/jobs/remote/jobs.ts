/**
 * `createSandboxJobs`: durable jobs in a sandbox that can do nothing but run a command and give back its output.
 *
 * The same API and the same directories as `sandbox.jobs`, written by a supervisor that is a shell script. Nothing is
 * remembered here and no connection is held: every method is one call, or a few, that look at the job's directory.
 */
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
  JobsBackend,
  Jobs as PublicJobs,
  SandboxJobsOptions,
} from '../../../index.js'
import { refuseAborted } from '../../abort.js'
import { AbortError, SandboxError } from '../../errors.js'
import { identifier } from '../../options/ids.js'
import { jobReference, planJobCancel, planJobStart, planJobWait } from '../../options/jobs.js'
import { readArgument } from '../../options/read.js'
import { planRemoteJobs, type RemoteJobsPlan } from '../../options/remote-jobs.js'
import { freshJobId } from '../ids.js'
import { followOutput, type OutputBackend, readOutput } from '../output.js'
import type { Fetched } from '../read.js'
import { publicHandle, publicInfo, publicStatus } from '../status.js'
import { call, mark } from './backend.js'
import { Backoff } from './backoff.js'
import { cancel } from './cancel.js'
import { type Facts, fromBase64, jobOf, readFacts, statusOf } from './facts.js'
import { find, notFound } from './find.js'
import { start } from './start.js'

/** 4 MiB: what a reply may grow to that travels as text. */
const MOST_READ_BYTES = 4 * 1024 * 1024

export function createSandboxJobs(backend: JobsBackend, options?: SandboxJobsOptions): PublicJobs {
  return new RemoteJobs(planRemoteJobs(backend, options))
}

class RemoteJobs implements PublicJobs {
  readonly #plan: RemoteJobsPlan
  readonly #output: OutputBackend = {
    fetch: (jobId, cursor, maxBytes) => this.#fetch(jobId, cursor, maxBytes),
    watch: () => {
      const backoff = new Backoff(this.#plan.maxPollInterval)
      return (seen, stop) => backoff.wait(seen, stop)
    },
    mostBytes: MOST_READ_BYTES,
  }

  constructor(plan: RemoteJobsPlan) {
    this.#plan = plan
  }

  get root(): string {
    return this.#plan.place.root
  }

  async start(options: JobStartOptions): Promise<JobHandle> {
    const plan = planJobStart(options)
    const jobId = plan.jobId ?? freshJobId()
    return publicHandle(await start(this.#plan.place, jobId, plan, this.#plan.defaults))
  }

  async status(job: JobHandle | string): Promise<JobStatus> {
    return this.#status(jobReference(job))
  }

  async read<E extends Encoding = 'utf8'>(
    job: JobHandle | string,
    cursor?: number,
    options?: JobReadOptions<E>,
  ): Promise<JobRead<E>> {
    return readOutput(this.#output, job, cursor, options)
  }

  follow<E extends Encoding = 'utf8'>(
    job: JobHandle | string,
    cursor?: number,
    options?: JobFollowOptions<E>,
  ): AsyncIterableIterator<JobRead<E>, undefined> {
    return followOutput(this.#output, job, cursor, options)
  }

  async wait(job: JobHandle | string, options?: { signal?: AbortSignal }): Promise<JobStatus> {
    const [jobId, { signal }] = [jobReference(job), planJobWait(options)]
    const backoff = new Backoff(this.#plan.maxPollInterval)
    refuseAborted(signal, 'the wait')
    for (;;) {
      const status = await this.#status(jobId)
      if (signal?.aborted) throw new AbortError(signal.reason, undefined, 'the wait')
      if (status.state !== 'running') return status
      await backoff.wait(0, signal)
      if (signal?.aborted) throw new AbortError(signal.reason, undefined, 'the wait')
    }
  }

  async cancel(job: JobHandle | string, options?: JobCancelOptions): Promise<void> {
    const [jobId, { forceKillAfterDelay }] = [jobReference(job), planJobCancel(options)]
    await cancel(this.#plan.place, jobId, forceKillAfterDelay, this.#plan.defaults.graceMs)
  }

  async attach(id: string): Promise<JobHandle | null> {
    const jobId = readArgument(identifier, id, 'jobId')
    try {
      const job = jobOf(await find(this.#plan.place, jobId, 'whole'))
      return job === undefined ? null : publicHandle(job)
    } catch (error) {
      if (error instanceof SandboxError && error.code === 'JOB_NOT_FOUND') return null
      throw error
    }
  }

  async list(): Promise<JobInfo[]> {
    const jobs = readFacts(await call(this.#plan.place, 'list')).flatMap((facts) => {
      const [job, status] = [jobOf(facts), statusOf(facts)]
      return job === undefined || status === undefined ? [] : [publicInfo({ ...job, status })]
    })
    return jobs.sort((left, right) => compare(time(left), time(right)) || compare(left.jobId, right.jobId))
  }

  async remove(job: JobHandle | string): Promise<void> {
    const jobId = jobReference(job)
    await call(this.#plan.place, 'remove', jobId, mark())
  }

  async #status(jobId: string): Promise<JobStatus> {
    return told(await find(this.#plan.place, jobId))
  }

  /** One byte more is asked for than can be used, which shows whether there is more. */
  async #fetch(jobId: string, cursor: number, maxBytes: number): Promise<Fetched> {
    const lines = await call(this.#plan.place, 'read', jobId, cursor, maxBytes + 1)
    const [facts] = readFacts(lines)
    if (facts === undefined) throw notFound(jobId)
    const bytes = fromBase64(lines.slice(lines.indexOf('data') + 1))
    return { status: told(facts), bytes: bytes.subarray(0, maxBytes), atEnd: bytes.length <= maxBytes }
  }
}

function told(facts: Facts): JobStatus {
  const status = statusOf(facts)
  if (status === undefined) throw notFound(facts.jobId)
  return publicStatus(status)
}

function time({ createdAt }: JobInfo): number {
  return createdAt?.getTime() ?? 0
}

function compare<T extends string | number>(left: T, right: T): number {
  if (left === right) return 0
  return left < right ? -1 : 1
}
