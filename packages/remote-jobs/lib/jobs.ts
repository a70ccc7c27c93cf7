/**
 * `createRemoteJobs`: durable jobs in a sandbox that can only run a command and return its output.
 *
 * The same API and the same directories as `sandbox.jobs`, written by a supervisor that is a shell script. Nothing is kept
 * in memory and no connection is held: every method makes a few calls that read the job's directory.
 */

import type { Encoding, JobHandle, JobInfo, JobRead, JobStatus, Jobs as PublicJobs } from 'nacre'
import { AbortError, aborts, durable, isCode, type JobsBackend, type plans, RootedJobs } from 'nacre/internal'
import { cancel } from './cancel.js'
import { type Facts, fromBase64, jobOf, readFacts, statusOf } from './facts.js'
import { find, notFound } from './find.js'
import { planRemoteJobs, type RemoteJobsPlan } from './plan.js'
import { PollInterval } from './poll-interval.js'
import type { CommandBackend, RemoteJobsOptions } from './public.js'
import { call, mark } from './remote-call.js'
import { start } from './start.js'

/** 4 MiB: the maximum size of a reply, which is transferred as text. */
const MOST_READ_BYTES = 4 * 1024 * 1024

export function createRemoteJobs(backend: CommandBackend, options?: RemoteJobsOptions): PublicJobs {
  const plan = planRemoteJobs(backend, options)
  return new RootedJobs(new ScriptJobs(plan), plan.place.root)
}

class ScriptJobs implements JobsBackend {
  readonly #plan: RemoteJobsPlan
  readonly #output: durable.OutputBackend = {
    fetch: (jobId, cursor, maxBytes) => this.#fetch(jobId, cursor, maxBytes),
    watch: () => {
      const interval = new PollInterval(this.#plan.maxPollInterval)
      return (seen, stop) => interval.wait(seen, stop)
    },
    mostBytes: MOST_READ_BYTES,
  }

  constructor(plan: RemoteJobsPlan) {
    this.#plan = plan
  }

  async start(plan: plans.JobStartPlan): Promise<JobHandle> {
    const jobId = plan.jobId ?? durable.freshJobId()
    return durable.publicHandle(await start(this.#plan.place, jobId, plan, this.#plan.defaults))
  }

  async status({ jobId }: { jobId: string }): Promise<JobStatus> {
    return known(await find(this.#plan.place, jobId))
  }

  read({ jobId, cursor, ...plan }: plans.JobReadPlan & plans.JobPlace): Promise<JobRead<Encoding>> {
    return durable.readOutput(this.#output, jobId, cursor, plan)
  }

  follow(jobId: string, cursor: number, plan: plans.JobFollowPlan) {
    return durable.followOutput(this.#output, jobId, cursor, plan)
  }

  async wait({ jobId, signal }: plans.JobWaitPlan): Promise<JobStatus> {
    const interval = new PollInterval(this.#plan.maxPollInterval)
    aborts.refuseAborted(signal, 'the wait')
    for (;;) {
      const status = await this.status({ jobId })
      if (signal?.aborted) throw new AbortError(signal.reason, undefined, 'the wait')
      if (status.state !== 'running') return status
      await interval.wait(0, signal)
      if (signal?.aborted) throw new AbortError(signal.reason, undefined, 'the wait')
    }
  }

  async cancel(jobId: string, forceKillAfterDelay: number | undefined): Promise<void> {
    await cancel(this.#plan.place, jobId, forceKillAfterDelay, this.#plan.defaults.graceMs)
  }

  async attach(jobId: string): Promise<JobHandle | null> {
    try {
      const job = jobOf(await find(this.#plan.place, jobId, 'whole'))
      return job === undefined ? null : durable.publicHandle(job)
    } catch (error) {
      if (isCode(error, 'JOB_NOT_FOUND')) return null
      throw error
    }
  }

  async list(): Promise<JobInfo[]> {
    const jobs = readFacts(await call(this.#plan.place, 'list')).flatMap((facts) => {
      const [job, status] = [jobOf(facts), statusOf(facts)]
      return job === undefined || status === undefined ? [] : [durable.publicInfo({ ...job, status })]
    })
    return jobs.sort((left, right) => compare(time(left), time(right)) || compare(left.jobId, right.jobId))
  }

  async remove({ jobId }: { jobId: string }): Promise<void> {
    await call(this.#plan.place, 'remove', jobId, mark())
  }

  /** Requests one byte more than it returns, to find out whether there is more. */
  async #fetch(jobId: string, cursor: number, maxBytes: number): Promise<durable.Fetched> {
    const lines = await call(this.#plan.place, 'read', jobId, cursor, maxBytes + 1)
    const [facts] = readFacts(lines)
    if (facts === undefined) throw notFound(jobId)
    const bytes = fromBase64(lines.slice(lines.indexOf('data') + 1))
    return { status: known(facts), bytes: bytes.subarray(0, maxBytes), atEnd: bytes.length <= maxBytes }
  }
}

function known(facts: Facts): JobStatus {
  const status = statusOf(facts)
  if (status === undefined) throw notFound(facts.jobId)
  return durable.publicStatus(status)
}

function time({ startTime }: JobInfo): number {
  return startTime?.getTime() ?? 0
}

function compare<T extends string | number>(left: T, right: T): number {
  if (left === right) return 0
  return left < right ? -1 : 1
}
