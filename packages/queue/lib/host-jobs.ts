/**
 * The attempts of this host: those that run, which are watched, and those that have ended, whose output is kept.
 *
 * The directory of durable jobs is what counts. Redis is brought up to date from it when a worker starts, and whenever
 * Redis may have lost something.
 */
import { Job, type Worker } from 'bullmq'
import { isCode } from 'nacre/internal'
import { Attempt, type Beginning } from './attempt.js'
import { decodeData, type JobRequest } from './data.js'
import type { WorkerEvents } from './events.js'
import { finish } from './finish.js'
import { type AttemptRef, lockToken, type Names, readLabel } from './keys.js'
import type { Lease } from './lease.js'
import type { Locks } from './locks.js'
import type { Scripts } from './redis.js'
import type { StoredResult } from './result.js'
import { traceRun } from './tracing.js'
import type { WorkerSettings } from './worker-settings.js'

/** Attempts in one call of a script. */
const BATCH = 500

export interface HostJobsContext {
  settings: WorkerSettings
  names: Names
  scripts: Scripts
  worker: Worker
  lease: Lease
  locks: Locks
  events: WorkerEvents
  stop: AbortSignal
  /** Called when an attempt has ended. */
  onEnd: () => void
}

interface Ended {
  ref: AttemptRef
  uid: string
  at: number
}

export class HostJobs {
  readonly #context: HostJobsContext
  readonly #running = new Map<string, { attempt: Attempt; over: Promise<void> }>()
  readonly #ended = new Map<string, Ended>()

  constructor(context: HostJobsContext) {
    this.#context = context
  }

  get running(): number {
    return this.#running.size
  }

  /** Attaches to what runs here, and to what was claimed. */
  async attach(): Promise<void> {
    const { names, settings, events } = this.#context
    for (const { jobId, processName, status, startTime } of await settings.jobs.list()) {
      const ref = names.attemptOf(jobId)
      const { host, uid } = readLabel(processName) ?? {}
      if (ref === undefined || uid === undefined || host !== settings.host) continue
      if (status.state === 'running') {
        events.emit('attached', ref.id, ref.attempt)
        this.watch(ref, uid, 'started')
      } else this.#ended.set(jobId, { ref, uid, at: (status.endTime ?? startTime)?.getTime() ?? Date.now() })
    }
    await this.reconcile()
  }

  /** Watches an attempt that this host has claimed, unless it does so already. */
  watch(ref: AttemptRef, uid: string, beginning: Beginning, known?: Job): void {
    const { names, settings, stop, locks, events, onEnd } = this.#context
    const jobId = names.durableId(ref)
    const token = lockToken(settings.host, ref.attempt)
    locks.hold(ref.id, token)
    if (this.#running.has(jobId)) return
    let job = known
    const attempt: Attempt = new Attempt(ref, uid, jobId, {
      jobs: settings.jobs,
      host: settings.host,
      progressInterval: settings.progressInterval,
      stop,
      confirm: () => this.#confirm(attempt),
      onStarted: () => {
        if (beginning === 'started') return
        events.emit('started', ref.id, ref.attempt)
        this.#background('started', this.#started(attempt))
      },
      onProgress: (bytes) => {
        const progress = job?.updateProgress({ bytes, attempt: ref.attempt, host: settings.host })
        if (progress !== undefined) this.#background('progress', progress)
      },
    })
    const run = async () => {
      job ??= await Job.fromId(this.#context.worker, ref.id)
      const request = requestOf(job)
      const result = await traceRun(
        { ref, jobId, host: settings.host, queue: settings.name },
        request,
        (traced) => attempt.run(beginning, traced),
      )
      if (result === undefined) return
      this.#ended.set(jobId, { ref, uid, at: Date.now() })
      await this.#settle(attempt, result, request)
    }
    const over = run()
      .catch((error: unknown) => {
        if (!stop.aborted) events.error(`attempt ${ref.attempt} of ${ref.id}`, error)
      })
      .finally(() => {
        this.#running.delete(jobId)
        locks.release(ref.id, token)
        onEnd()
      })
    this.#running.set(jobId, { attempt, over })
  }

  cancel(ref: AttemptRef, grace: string): void {
    const found = this.#running.get(this.#context.names.durableId(ref))
    if (found !== undefined) this.#background('cancel', found.attempt.cancel(graceOf(grace)))
  }

  /** Claims again what Redis has lost, finds what was claimed and not started, and what was given up or cancelled meanwhile. */
  async reconcile(): Promise<void> {
    const { scripts, settings, stop } = this.#context
    const claims = await scripts.call<string[]>('claims', settings.host)
    for (let at = 0; at < claims.length; at += 4) {
      const [id = '', attempt, state, uid = ''] = claims.slice(at, at + 4)
      this.watch({ id, attempt: Number(attempt) }, uid, beginningOf(state ?? ''))
    }
    const running = [...this.#running.values()].map(({ attempt }) => attempt)
    const all = [
      ...running.map(({ ref, uid }) => ({ ref, uid, is: 'running' })),
      ...[...this.#ended.values()].map(({ ref, uid }) => ({ ref, uid, is: 'ended' })),
    ]
    for (let at = 0; at < all.length && !stop.aborted; at += BATCH) {
      const batch = all.slice(at, at + BATCH)
      const answers = await this.#reclaim(batch)
      for (const [index, answer] of answers.entries()) {
        const attempt = running[at + index]
        if (attempt === undefined || answer === 'own' || answer === 'ended') continue
        // Another host has been given the job, or it has failed: what still runs here must not go on.
        this.#background('cancel', attempt.cancel(graceOf(answer.replace('cancel:', ''))))
      }
    }
  }

  /** Removes what ended longer ago than the retention. */
  async sweep(): Promise<void> {
    const { jobs, retention } = this.#context.settings
    for (const [jobId, { at }] of this.#ended) {
      if (at + retention > Date.now() || this.#running.has(jobId)) continue
      try {
        await jobs.remove(jobId)
      } catch (error) {
        if (isCode(error, 'JOB_RUNNING')) continue
        if (!isCode(error, 'JOB_NOT_FOUND')) throw error
      }
      this.#ended.delete(jobId)
    }
  }

  /** Resolves when no attempt is watched any more. */
  async idle(): Promise<void> {
    await Promise.all([...this.#running.values()].map(({ over }) => over))
  }

  #reclaim(batch: Array<{ ref: AttemptRef; uid: string; is: string }>): Promise<string[]> {
    const { host, retention } = this.#context.settings
    const values = batch.flatMap(({ ref, uid, is }) => [ref.id, ref.attempt, uid, is])
    return this.#context.scripts.call('reclaim', host, retention, ...values)
  }

  /** A worker that was stopped may have claimed long ago. So the claim is looked at again when the lease may be over. */
  async #confirm({ ref, uid }: Attempt): Promise<boolean> {
    const { lease, settings } = this.#context
    if (lease.age < settings.lease / 2) return true
    await lease.renew()
    const [answer] = await this.#reclaim([{ ref, uid, is: 'running' }])
    return answer === 'own'
  }

  /** Records that the process runs. */
  async #started(attempt: Attempt): Promise<void> {
    const { scripts, settings } = this.#context
    const { id, attempt: number } = attempt.ref
    const grace = await scripts.call<string | null>('started', settings.host, id, number, attempt.uid)
    if (grace !== null) await attempt.cancel(graceOf(grace))
  }

  async #settle(attempt: Attempt, result: StoredResult, request: JobRequest | undefined): Promise<void> {
    const { scripts, settings, worker, events } = this.#context
    const { id, attempt: number } = attempt.ref
    const stored = JSON.stringify(result)
    const values = [settings.host, id, number, attempt.uid, stored, settings.retention] as const
    const answer = await scripts.call<string>('settle', ...values)
    if (answer === 'foreign') return
    if (result.error === null) events.emit('completed', id, number)
    else events.emit('failed', id, number, result.error)
    if (answer !== 'finish') return
    const job = await Job.fromId(worker, id)
    if (job === undefined) return
    const token = lockToken(settings.host, number)
    await finish(scripts, job, token, result, request?.onHostLost ?? 'fail').catch((error: unknown) => {
      if (!this.#context.stop.aborted) events.warn(`finishing ${id}`, error)
    })
  }

  #background(doing: string, promise: Promise<unknown>): void {
    promise.catch((error: unknown) => {
      if (!this.#context.stop.aborted) this.#context.events.error(doing, error)
    })
  }
}

/** undefined when the job is not in the queue any more, or its data is not readable. */
function requestOf(job: Job | undefined): JobRequest | undefined {
  try {
    return job === undefined ? undefined : decodeData(job.data)
  } catch {
    return undefined
  }
}

/** A claim is followed by the start, unless its worker was killed between the two. */
export function beginningOf(state: string): Beginning {
  return state === 'claimed' ? 'new' : 'started'
}

/** Milliseconds; undefined for the default of the sandbox. */
function graceOf(text: string): number | undefined {
  return /^\d{1,10}$/.test(text) ? Number(text) : undefined
}
