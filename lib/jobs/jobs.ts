/**
 * `sandbox.jobs`: durable jobs of the native supervisor.
 *
 * Nothing is remembered here. Every call looks at the job's directory, so it does not matter who started it.
 */
import path from 'node:path'
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
  Jobs as PublicJobs,
} from '../../index.js'
import { refuseAborted } from '../abort.js'
import type { NativeEvent, NativeJobStart } from '../boundary/index.js'
import type { Engine } from '../engine.js'
import { AbortError, engineError } from '../errors.js'
import { identifier } from '../options/ids.js'
import { type JobStartPlan, jobReference, planJobCancel, planJobStart, planJobWait } from '../options/jobs.js'
import { readArgument } from '../options/read.js'
import { traced, withTracedEnv } from '../tracing.js'
import { freshJobId } from './ids.js'
import { followOutput, type OutputBackend, readOutput } from './output.js'
import type { Fetched } from './read.js'
import { publicHandle, publicInfo, publicStatus } from './status.js'
import { JobWaits } from './waits.js'

/** What jobs take from their sandbox. */
export interface JobDefaults {
  cwd: string
  jobsRoot: string
  /** Milliseconds between SIGTERM and SIGKILL. */
  graceMs: number
}

export class Jobs implements PublicJobs {
  readonly #engine: Engine
  readonly #defaults: JobDefaults
  readonly #waits: JobWaits
  readonly #output: OutputBackend = {
    fetch: (jobId, cursor, maxBytes) => this.#fetch(jobId, cursor, maxBytes),
    watch: (jobId) => (seen, stop) => this.#waits.news(jobId, seen, stop),
    mostBytes: Number.POSITIVE_INFINITY,
  }

  constructor(engine: Engine, defaults: JobDefaults) {
    this.#engine = engine
    this.#defaults = defaults
    this.#waits = new JobWaits(engine)
  }

  get root(): string {
    return this.#defaults.jobsRoot
  }

  async start(options: JobStartOptions): Promise<JobHandle> {
    const plan = planJobStart(options)
    const request = this.#request(plan)
    return traced(
      'job',
      () => ({ command: plan.shown, argv: request.argv, jobId: request.jobId, changes: request }),
      async (context) => {
        const traced = withTracedEnv(request, context)
        const { job } = await this.#engine.call((native, id) => native.startJob(id, traced))
        if (job === undefined)
          throw engineError('ENGINE_ERROR', 'the engine started a job and does not know it')
        return publicHandle(job)
      },
    )
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
    refuseAborted(signal, 'the wait')
    const never = new AbortController().signal
    await this.#waits.news(jobId, null, signal ?? never)
    if (signal?.aborted) throw new AbortError(signal.reason, undefined, 'the wait')
    return this.#status(jobId)
  }

  async cancel(job: JobHandle | string, options?: JobCancelOptions): Promise<void> {
    const [jobId, { forceKillAfterDelay = null }] = [jobReference(job), planJobCancel(options)]
    await this.#engine.call((native, id) => native.cancelJob(id, jobId, forceKillAfterDelay))
  }

  async attach(id: string): Promise<JobHandle | null> {
    const jobId = readArgument(identifier, id, 'jobId')
    const { job } = await this.#engine.call((native, call) => native.attachJob(call, jobId))
    return job === undefined ? null : publicHandle(job)
  }

  async list(): Promise<JobInfo[]> {
    const { jobs = [] } = await this.#engine.call((native, id) => native.listJobs(id))
    return jobs.map(publicInfo)
  }

  async remove(job: JobHandle | string): Promise<void> {
    const jobId = jobReference(job)
    await this.#engine.call((native, id) => native.removeJob(id, jobId))
  }

  /** The sandbox ends: those who wait are told; the jobs go on. */
  letGo(): void {
    this.#waits.letGo()
  }

  async #status(jobId: string): Promise<JobStatus> {
    return statusOf(await this.#engine.call((native, id) => native.jobStatus(id, jobId)))
  }

  async #fetch(jobId: string, cursor: number, maxBytes: number): Promise<Fetched> {
    const event = await this.#engine.call((native, id) => native.readJob(id, jobId, cursor, maxBytes))
    return { status: statusOf(event), bytes: event.data ?? Buffer.alloc(0), atEnd: event.atEnd ?? true }
  }

  #request({ command, shown, ...values }: JobStartPlan): NativeJobStart {
    const { jobId, cwd, env, processName, timeout = 0, limits, input } = values
    return {
      jobId: jobId ?? freshJobId(),
      ...command,
      command: shown,
      cwd: cwd === undefined ? undefined : path.resolve(this.#defaults.cwd, cwd),
      envNames: env?.names,
      envValues: env?.values,
      processName,
      timeout,
      graceMs: this.#defaults.graceMs,
      limits,
      stdin: input,
    }
  }
}

function statusOf({ jobStatus }: NativeEvent): JobStatus {
  if (jobStatus === undefined) throw engineError('ENGINE_ERROR', 'the engine gave no status of the job')
  return publicStatus(jobStatus)
}
