/** Workers of a queue. See public/queue.ts. */
import { Queue, Worker } from 'bullmq'
import type { Redis } from 'ioredis'
import { AbortError, engineError, pause } from 'nacre/internal'
import { WorkerEvents } from './events.js'
import { FetchLoop } from './fetch-loop.js'
import { beginningOf, HostJobs } from './host-jobs.js'
import { type HostRequest, readInbox } from './inbox.js'
import { Names } from './keys.js'
import { Lease } from './lease.js'
import { Locks } from './locks.js'
import { LogServer } from './log-server.js'
import type { JobWorkerMetrics, JobWorkerOptions, JobWorker as PublicWorker } from './public.js'
import { connect, connectAgain, Scripts, tell } from './redis.js'
import { type WorkerSettings, workerSettings } from './worker-settings.js'

/** A fetch that BullMQ has not answered by then waits for a job, which can be cut off without losing one. */
const LAST_FETCH_MS = 500
const LONGEST_SWEEP_MS = 60_000

/** What exists while a worker runs. */
interface Parts {
  names: Names
  redis: Redis
  inbox: Redis
  worker: Worker
  queue: Queue
  lease: Lease
  locks: Locks
  hostJobs: HostJobs
  loop: FetchLoop
  logs: LogServer
  /** Ends after `stop`. */
  running: Promise<unknown>[]
}

export class JobWorker implements PublicWorker {
  readonly stopped: Promise<void>
  readonly #settings: WorkerSettings
  readonly #events: WorkerEvents
  readonly #stop = new AbortController()
  #parts: Parts | undefined
  #closing: Promise<void> | undefined
  #resolveStopped = () => {}
  #rejectStopped: (error: Error) => void = () => {}

  constructor(options: JobWorkerOptions) {
    this.#settings = workerSettings(options)
    const { name, host, logger } = this.#settings
    this.#events = new WorkerEvents({ queue: name, host }, logger)
    this.stopped = new Promise((resolve, reject) => {
      this.#resolveStopped = resolve
      this.#rejectStopped = reject
    })
    // A program that does not wait for it must not end by it.
    this.stopped.catch(() => {})
  }

  async start(): Promise<void> {
    if (this.#parts !== undefined || this.#closing !== undefined)
      throw engineError('ENGINE_ERROR', 'a worker can be started once')
    const parts = this.#build()
    this.#parts = parts
    try {
      await parts.lease.take()
      await parts.hostJobs.attach()
    } catch (error) {
      const wasClosed = this.#stop.signal.aborted
      await this.close()
      throw wasClosed ? new AbortError(undefined, undefined, 'the start of the worker') : error
    }
    if (!this.#stop.signal.aborted) await this.#run(parts)
  }

  metrics(): JobWorkerMetrics {
    return { running: this.#parts?.hostJobs.running ?? 0, ...this.#events.counts }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #build(): Parts {
    const settings = this.#settings
    const { logger, name, prefix, lockDuration, stalledInterval, limiter } = settings
    const told = new Set<string>()
    const redis = connect(settings.redis, logger, told)
    const inbox = connectAgain(redis, logger, told)
    const names = new Names(prefix, name)
    const scripts = new Scripts(redis, names)
    const worker = new Worker(name, null, {
      connection: redis,
      prefix,
      lockDuration,
      stalledInterval,
      // What stalled jobs need is decided by their claims, so BullMQ must never fail them.
      maxStalledCount: Number.MAX_SAFE_INTEGER,
      autorun: false,
      name: settings.host,
      ...(limiter !== undefined && { limiter }),
    })
    worker.on('error', (error) => {
      if (this.#stop.signal.aborted) return
      // Its own connection to the same Redis.
      if ('code' in error) tell(error as NodeJS.ErrnoException, logger, told)
      else this.#events.error('BullMQ', error)
    })
    worker.on('stalled', (id) => this.#events.emit('stalled', id))
    const queue = new Queue(name, { connection: redis, prefix, skipMetasUpdate: true })
    queue.on('error', () => {})
    const lease = new Lease(redis, scripts, {
      host: settings.host,
      lease: settings.lease,
      onLapse: () => this.#reconcile(),
      onSuperseded: (error) => this.#fail(error),
      onError: (error) => this.#events.error('renewing the lease', error),
    })
    const locks = new Locks(worker, lockDuration)
    const shared = { settings, names, scripts, worker, lease, events: this.#events, stop: this.#stop.signal }
    const hostJobs: HostJobs = new HostJobs({ ...shared, locks, onEnd: () => loop.freed() })
    const rateLimit = async () => (limiter === undefined ? 0 : await queue.getRateLimitTtl(limiter.max))
    const loop = new FetchLoop({ ...shared, hostJobs, rateLimit })
    const logs = new LogServer(redis, names, settings.jobs, this.#stop.signal)
    return { names, redis, inbox, worker, queue, lease, locks, hostJobs, loop, logs, running: [] }
  }

  async #run(parts: Parts): Promise<void> {
    const { names, inbox, worker, locks, hostJobs, loop, logs } = parts
    const { host, retention } = this.#settings
    const stop = this.#stop.signal
    const serve = (request: HostRequest) => {
      if (request.op === 'cancel') hostJobs.cancel(request, request.grace)
      else if (request.op === 'take') hostJobs.watch(request, request.uid, beginningOf(request.state))
      else void logs.serve(request)
    }
    locks.start()
    await worker.startStalledCheckTimer()
    const sweep = async () => {
      for (;;) {
        await pause(Math.min(LONGEST_SWEEP_MS, retention), stop)
        if (stop.aborted) return
        await hostJobs.sweep().catch((error: unknown) => this.#events.error('removing old jobs', error))
      }
    }
    parts.running.push(loop.run(), readInbox(inbox, names.inbox(host), serve, stop), sweep())
  }

  #reconcile(): void {
    const { hostJobs } = this.#parts ?? {}
    hostJobs?.reconcile().catch((error: unknown) => {
      if (!this.#stop.signal.aborted) this.#events.error('comparing jobs with Redis', error)
    })
  }

  #fail(error: Error): void {
    this.#rejectStopped(error)
    this.#events.error('the worker stops', error)
    void this.close()
  }

  async #close(): Promise<void> {
    this.#stop.abort()
    const parts = this.#parts
    if (parts !== undefined)
      await closeParts(parts, this.#settings, (error) => this.#events.warn('releasing the host', error))
    this.#resolveStopped()
  }
}

/** Takes no more jobs, and leaves those that run. The order matters: what uses a connection ends before it does. */
async function closeParts(
  { redis, inbox, worker, queue, lease, locks, hostJobs, running }: Parts,
  { lease: duration, absence }: WorkerSettings,
  unreleased: (error: unknown) => void,
): Promise<void> {
  locks.stop()
  inbox.disconnect()
  const isRunning = hostJobs.running > 0
  const never = new AbortController().signal
  await Promise.race([Promise.all(running), pause(LAST_FETCH_MS, never)])
  const isConnected = redis.status === 'ready'
  if (isConnected) {
    await Promise.race([
      // Without a release, the next worker waits until it sees that nothing renews the lease. The jobs are unaffected.
      hostJobs
        .idle()
        .then(() => lease.end(isRunning ? absence : duration))
        .catch(unreleased),
      pause(LAST_FETCH_MS * 4, never),
    ])
  } else lease.abandon()
  await worker.close(true)
  await queue.close()
  redis.disconnect()
}
