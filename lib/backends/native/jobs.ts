/**
 * Durable jobs, run by the native supervisor.
 */

import { refuseAborted } from '../../base/abort.js'
import { AbortError, engineError } from '../../base/errors.js'
import { ownOnly } from '../../base/own.js'
import { resolveFrom } from '../../base/working-directory.js'
import type { NativeJobStart } from '../../boundary/index.js'
import type { Encoding, JobHandle, JobInfo, JobRead, JobStatus } from '../../calls/index.js'
import { freshJobId } from '../../jobs/ids.js'
import { followOutput, type OutputBackend, readOutput } from '../../jobs/output.js'
import type { Fetched } from '../../jobs/read.js'
import { publicHandle, publicInfo, publicStatus } from '../../jobs/status.js'
import type { JobFollowPlan, JobPlace, JobReadPlan, JobStartPlan, JobWaitPlan } from '../../requests/jobs.js'
import type { JobsBackend } from '../../sandbox/backend.js'
import type { Engine } from './engine.js'
import { traced, withTracedEnv } from './tracing.js'

/** The defaults that jobs inherit from their sandbox. */
export interface JobDefaults {
  cwd: string
  /** Milliseconds between SIGTERM and SIGKILL. */
  graceMs: number
}

export class NativeJobs implements JobsBackend {
  readonly #engine: Engine
  readonly #defaults: JobDefaults
  /** Aborted with the sandbox. */
  readonly #stop = new AbortController()
  readonly #output: OutputBackend = {
    fetch: (jobId, cursor, maxBytes) => this.#fetch(jobId, cursor, maxBytes),
    watch: (jobId) => (seen, stop) => this.#news(jobId, seen, stop),
    mostBytes: Number.POSITIVE_INFINITY,
  }

  constructor(engine: Engine, defaults: JobDefaults) {
    this.#engine = engine
    this.#defaults = defaults
  }

  start(plan: JobStartPlan): Promise<JobHandle> {
    const request = this.#request(plan)
    return traced(
      'job',
      () => ({ command: plan.shown, argv: request.argv, jobId: request.jobId, changes: request }),
      async (context) => {
        const traced = withTracedEnv(request, context)
        return publicHandle(await this.#engine.call((native, id) => native.startJob(id, traced)))
      },
    )
  }

  async status({ jobId }: { jobId: string }): Promise<JobStatus> {
    return publicStatus(await this.#engine.call((native, id) => native.jobStatus(id, jobId)))
  }

  read({ jobId, cursor, ...plan }: JobReadPlan & JobPlace): Promise<JobRead<Encoding>> {
    return readOutput(this.#output, jobId, cursor, plan)
  }

  follow(jobId: string, cursor: number, plan: JobFollowPlan) {
    return followOutput(this.#output, jobId, cursor, plan)
  }

  async wait({ jobId, signal }: JobWaitPlan): Promise<JobStatus> {
    refuseAborted(signal, 'the wait')
    const never = new AbortController().signal
    await this.#news(jobId, null, signal ?? never)
    if (signal?.aborted) throw new AbortError(signal.reason, undefined, 'the wait')
    return this.status({ jobId })
  }

  async cancel(jobId: string, forceKillAfterDelay: number | undefined): Promise<void> {
    await this.#engine.call((native, id) => native.cancelJob(id, jobId, forceKillAfterDelay ?? null))
  }

  async attach(jobId: string): Promise<JobHandle | null> {
    const job = await this.#engine.call((native, call) => native.attachJob(call, jobId))
    return job && publicHandle(job)
  }

  async list(): Promise<JobInfo[]> {
    return (await this.#engine.call((native, id) => native.listJobs(id))).map(publicInfo)
  }

  async remove({ jobId }: { jobId: string }): Promise<void> {
    await this.#engine.call((native, id) => native.removeJob(id, jobId))
  }

  /** Ends all waits when the sandbox ends. The jobs continue. */
  letGo(): void {
    this.#stop.abort()
  }

  /**
   * Resolves when the job has more than `cursor` bytes of output or no process is left; for null, when the command has
   * ended. Also resolves when `stop` is aborted.
   */
  async #news(jobId: string, cursor: number | null, stop: AbortSignal): Promise<void> {
    if (stop.aborted) return
    const { signal } = this.#stop
    await this.#engine.call((native, id) => native.awaitJob(id, jobId, cursor), stop, signal)
    if (signal.aborted) throw engineError('SANDBOX_DESTROYED', undefined)
  }

  async #fetch(jobId: string, cursor: number, maxBytes: number): Promise<Fetched> {
    const { status, data, atEnd } = await this.#engine.call((native, id) =>
      native.readJob(id, jobId, cursor, maxBytes),
    )
    return { status: publicStatus(status), bytes: data, atEnd }
  }

  #request({ command, shown, ...values }: JobStartPlan): NativeJobStart {
    const { jobId, cwd, env, processName, timeout = 0, limits, input } = ownOnly(values)
    return {
      jobId: jobId ?? freshJobId(),
      ...command,
      command: shown,
      cwd: cwd === undefined ? undefined : resolveFrom(this.#defaults.cwd, cwd),
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
