/**
 * Takes jobs from BullMQ, and decides for each what this host does with it.
 */
import { randomUUID } from 'node:crypto'
import type { Job, Worker } from 'bullmq'
import { aborts, clock, OptionError, pause } from 'nacre/internal'
import { decodeData, type JobRequest } from './data.js'
import type { WorkerEvents } from './events.js'
import { finish } from './finish.js'
import { beginningOf, type HostJobs } from './host-jobs.js'
import type { Names } from './keys.js'
import type { Lease } from './lease.js'
import type { Scripts } from './redis.js'
import { failedResult, type StoredResult } from './result.js'
import type { WorkerSettings } from './worker-settings.js'

export interface FetchContext {
  settings: WorkerSettings
  names: Names
  scripts: Scripts
  worker: Worker
  lease: Lease
  hostJobs: HostJobs
  events: WorkerEvents
  stop: AbortSignal
  /** Milliseconds until the rate limit lets a job through; 0 when there is none. */
  rateLimit: () => Promise<number>
}

/** After an error of Redis, or a job that had to be put back. */
const PAUSE_MS = 200
/** BullMQ promotes delayed jobs only when it is asked, so a rate limit must not stop the asking for long. */
const LONGEST_LIMIT_MS = 5000

export class FetchLoop {
  readonly #context: FetchContext
  /** Wakes the loop when an attempt has ended. */
  #wake = () => {}

  constructor(context: FetchContext) {
    this.#context = context
  }

  /** An attempt has ended. */
  freed(): void {
    this.#wake()
  }

  /** Runs until `stop` is aborted. */
  async run(): Promise<void> {
    const { worker, stop, events } = this.#context
    // After a failure, a job may wait whose announcement BullMQ has taken already.
    let mayBlock = true
    while (!stop.aborted) {
      await this.#slot()
      if (stop.aborted) return
      try {
        const token = `nacre:${randomUUID()}`
        const asked = clock.performance.now()
        const job = await worker.getNextJob(token, { block: mayBlock })
        mayBlock = true
        if (job !== undefined) await this.#take(job, token)
        else await this.#idle(clock.performance.now() - asked)
      } catch (error) {
        if (stop.aborted) return
        mayBlock = false
        events.error('taking a job', error)
        await pause(PAUSE_MS, stop)
      }
    }
  }

  /** Resolves when this host may run another job. */
  async #slot(): Promise<void> {
    const { hostJobs, settings, stop } = this.#context
    while (!stop.aborted && hostJobs.running >= settings.concurrency) {
      const freed = new Promise<void>((resolve) => {
        this.#wake = resolve
      })
      await aborts.orAborted(freed, stop)
    }
  }

  /** BullMQ waits for jobs itself, but returns immediately while a rate limit holds. */
  async #idle(waited: number): Promise<void> {
    const limit = await this.#context.rateLimit()
    if (limit > 0) await pause(Math.min(limit, LONGEST_LIMIT_MS), this.#context.stop)
    else if (waited < 1) await pause(5, this.#context.stop)
  }

  async #take(job: Job, token: string): Promise<void> {
    const { settings, scripts, lease, hostJobs, events, names, stop } = this.#context
    const id = job.id ?? ''
    const ref = { id, attempt: job.attemptsMade + 1 }
    const place = { ...ref, host: settings.host, jobId: names.durableId(ref) }
    let request: JobRequest
    try {
      if (names.attemptOf(place.jobId) === undefined || !/^[A-Za-z0-9._-]{1,100}$/.test(id))
        throw new Error('its id cannot be that of a durable job')
      request = decodeData(job.data)
    } catch (error) {
      const message = `the job cannot run: ${(error as Error).message}`
      const code = error instanceof OptionError ? error.code : 'INVALID_OPTION'
      return this.#finish(job, token, failedResult({ ...place, host: null }, 'start-failed', message, code))
    }
    const [answer, detail = '', known = request.uid] = await scripts.call<string[]>(
      'claim',
      settings.host,
      lease.worker,
      settings.lease,
      lease.seen,
      id,
      ref.attempt,
      request.uid,
      token,
      settings.lockDuration,
    )
    switch (answer) {
      case 'new':
      case 'own':
        return hostJobs.watch(ref, known, beginningOf(detail), job)
      case 'handed':
        return events.emit('handedOver', id, ref.attempt, detail)
      case 'ended':
        return this.#finish(job, token, JSON.parse(detail) as StoredResult, request)
      case 'cancelled': {
        const message = 'the job was cancelled before it started'
        return this.#finish(
          job,
          token,
          failedResult({ ...place, host: null }, 'cancelled', message, null),
          request,
        )
      }
      case 'lost': {
        events.emit('lost', id, ref.attempt, detail)
        const message = `the host '${detail}' was lost: its process may still run if the host is only cut off`
        const result = failedResult({ ...place, host: detail }, 'host-lost', message, 'HOST_LOST')
        return this.#finish(job, token, result, request)
      }
      case 'hold':
        await job.moveToWait(token)
        return pause(Math.max(PAUSE_MS, Number(detail)), stop)
      case 'unregistered':
        await job.moveToWait(token)
        await lease.renew()
        return pause(PAUSE_MS, stop)
      default:
        // The lock was lost before the claim: BullMQ offers the job again.
        return
    }
  }

  async #finish(job: Job, token: string, result: StoredResult, request?: JobRequest): Promise<void> {
    if (result.error === null) this.#context.events.emit('completed', job.id ?? '', result.attempt)
    else this.#context.events.emit('failed', job.id ?? '', result.attempt, result.error)
    await finish(this.#context.scripts, job, token, result, request?.onHostLost ?? 'fail')
  }
}
