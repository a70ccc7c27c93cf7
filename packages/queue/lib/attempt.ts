/**
 * One attempt on this host: its durable job is started or attached to, watched to its end, and the end is recorded.
 *
 * The start is repeated until its outcome is certain. That never makes a second process: the id of the durable job is that
 * of the attempt, and a directory of jobs has each id once.
 */

import type { JobHandle, JobStatus } from 'nacre'
import { isBusy, isCode, OptionError, pause } from 'nacre/internal'
import type { JobRequest } from './data.js'
import { type AttemptRef, labelOf, readLabel } from './keys.js'
import { outputSize } from './output-size.js'
import type { JobWorkerOptions } from './public.js'
import { endedResult, failedResult, type StoredResult } from './result.js'

/** What an attempt begins with: 'new' may be started; 'started' has been, so it is attached to and never started again. */
export type Beginning = 'new' | 'started'

export interface AttemptContext {
  jobs: JobWorkerOptions['jobs']
  host: string
  progressInterval: number
  /** Aborted when the worker closes: the job continues. */
  stop: AbortSignal
  /** Resolves once the claim is certainly valid, or with false when it is not. */
  confirm: () => Promise<boolean>
  onStarted: () => void
  onProgress: (bytes: number) => void
}

/** Calls again when the server of the jobs cannot be reached, or has no room. */
const RETRY_MS = 250

export class Attempt {
  readonly ref: AttemptRef
  readonly uid: string
  readonly jobId: string
  readonly #context: AttemptContext
  #cancelled: { grace: number | undefined } | undefined
  #begun = false
  #bytes = 0

  constructor(ref: AttemptRef, uid: string, jobId: string, context: AttemptContext) {
    this.ref = ref
    this.uid = uid
    this.jobId = jobId
    this.#context = context
  }

  /** Runs the attempt to its end. undefined when the worker closes before, or the attempt was given up before its start. */
  async run(beginning: Beginning, request: JobRequest | undefined): Promise<StoredResult | undefined> {
    try {
      const failed = await this.#begin(beginning, request)
      if (failed !== undefined) return failed === 'given up' ? undefined : failed
      this.#begun = true
      this.#context.onStarted()
      if (this.#cancelled !== undefined) await this.#cancelJob()
      const status = await this.#watch()
      const bytes = await this.#outputSize()
      return endedResult(this.#place, status, { bytes, check: request?.check ?? true })
    } catch (error) {
      if (this.#context.stop.aborted) return undefined
      if (isCode(error, 'JOB_NOT_FOUND')) return this.#lost()
      throw error
    }
  }

  /** Kills everything of the attempt, now or as soon as it runs. */
  async cancel(grace: number | undefined): Promise<void> {
    this.#cancelled = { grace }
    if (this.#begun) await this.#cancelJob()
  }

  get #place() {
    return { ...this.ref, host: this.#context.host, jobId: this.jobId }
  }

  #lost(): StoredResult {
    const message = `the host '${this.#context.host}' has no record of the job: its directory was removed`
    return failedResult(this.#place, 'host-lost', message, 'HOST_LOST')
  }

  /** undefined when the process runs or has run. */
  async #begin(
    beginning: Beginning,
    request: JobRequest | undefined,
  ): Promise<StoredResult | 'given up' | undefined> {
    const { jobs, stop, confirm } = this.#context
    if (beginning === 'started' || request === undefined)
      return (await this.#repeat(() => jobs.attach(this.jobId))) === null ? this.#lost() : undefined
    for (;;) {
      stop.throwIfAborted()
      if (this.#cancelled !== undefined)
        return failedResult(this.#place, 'cancelled', 'the job was cancelled before it started', null)
      if (!(await confirm())) return 'given up'
      try {
        const { env, ...rest } = request.start
        const start = { ...rest, env: { ...request.trace, ...env } }
        await jobs.start({ ...start, jobId: this.jobId, processName: labelOf(this.#context.host, this.uid) })
        return undefined
      } catch (error) {
        if (isCode(error, 'JOB_ALREADY_EXISTS')) {
          if (await this.#isOwn(await this.#repeat(() => jobs.attach(this.jobId)))) return undefined
        } else if (!isTransient(error)) {
          return this.#refused(error)
        }
        await pause(RETRY_MS, stop)
      }
    }
  }

  /**
   * Whether the durable job with this id is this attempt. An older one, of a job that was removed from the queue, is cleared
   * away once it has ended; while it runs, the id is in use, and the job is that one. null: the job is just being started.
   */
  async #isOwn(handle: JobHandle | null): Promise<boolean> {
    if (handle === null) return false
    if (readLabel(handle.processName)?.uid === this.uid) return true
    const { state, alive } = await this.#context.jobs.status(this.jobId)
    if (state === 'running' || alive) return true
    await this.#context.jobs.remove(this.jobId)
    return false
  }

  #refused(error: unknown): StoredResult {
    const { code, message } = error as { code?: unknown; message?: string }
    if (isCode(error, 'SANDBOX_DESTROYED')) throw error
    const isKnown = typeof code === 'string' || error instanceof OptionError
    return failedResult(
      this.#place,
      'start-failed',
      `the job cannot start: ${message ?? String(error)}`,
      isKnown ? String(code) : null,
    )
  }

  async #watch(): Promise<JobStatus> {
    const { jobs, stop, progressInterval, onProgress } = this.#context
    const done = new AbortController()
    const over = AbortSignal.any([stop, done.signal])
    const report = async () => {
      for (;;) {
        await pause(progressInterval, over)
        if (over.aborted) return
        const bytes = await outputSize(jobs, this.jobId, this.#bytes).catch(() => this.#bytes)
        if (bytes > this.#bytes && !over.aborted) onProgress(bytes)
        this.#bytes = bytes
      }
    }
    const reports = report()
    try {
      return await this.#repeat(() => jobs.wait(this.jobId, { signal: stop }))
    } finally {
      done.abort()
      await reports
    }
  }

  /** The end is known, so a directory that is removed now is not a loss. */
  async #outputSize(): Promise<number> {
    try {
      return await this.#repeat(() => outputSize(this.#context.jobs, this.jobId, this.#bytes))
    } catch (error) {
      if (isCode(error, 'JOB_NOT_FOUND')) return this.#bytes
      throw error
    }
  }

  async #cancelJob(): Promise<void> {
    const grace = this.#cancelled?.grace
    const options = grace === undefined ? {} : { forceKillAfterDelay: grace }
    await this.#repeat(() => this.#context.jobs.cancel(this.jobId, options)).catch((error: unknown) => {
      if (!isCode(error, 'JOB_NOT_FOUND', 'SANDBOX_DESTROYED')) throw error
    })
  }

  /** Repeats a call that changes nothing when it is repeated, until the server of the jobs answers. */
  async #repeat<T>(call: () => Promise<T>): Promise<T> {
    const { stop } = this.#context
    for (;;) {
      stop.throwIfAborted()
      try {
        return await call()
      } catch (error) {
        if (!isTransient(error)) throw error
        await pause(RETRY_MS, stop)
      }
    }
  }
}

/** Whether the same call may succeed a moment later. */
function isTransient(error: unknown): boolean {
  return isCode(error, 'CONNECTION_FAILED') || isBusy(error)
}
