/** Queues, from the side of those that add jobs. See public/queue.ts. */
import { Job, type JobsOptions, Queue } from 'bullmq'
import type { Redis } from 'ioredis'
import type { Encoding, JobRead } from 'nacre'
import {
  AbortError,
  clock,
  durable,
  engineError,
  jobReadOptions,
  kinds,
  OptionError,
  report,
} from 'nacre/internal'
import { encodeData } from './data.js'
import { FinishedEvents } from './finished.js'
import { jobsIn, locate, viewOf, viewOfGone } from './job-view.js'
import { Names } from './keys.js'
import { QUEUE_STATES, queueName } from './kinds.js'
import { outputOfHost } from './log-source.js'
import { logsOf } from './logs.js'
import {
  jobQueueOptions,
  queueAddOptions,
  queueCancelOptions,
  queueListOptions,
  queueLogsOptions,
  queueWaitOptions,
} from './options.js'
import type {
  JobQueueOptions,
  JobQueue as PublicQueue,
  QueueAddOptions,
  QueueCancelOptions,
  QueueJob,
  QueueListOptions,
  QueueLogsOptions,
  QueueWaitOptions,
} from './public.js'
import { connect, connectAgain, Scripts } from './redis.js'
import { Replies } from './replies.js'
import { traceAdd } from './tracing.js'

type Settings = kinds.CompleteValues<typeof jobQueueOptions> & { name: string; redis: string | object }

/** A request to cancel is repeated, since the job may have been between two states. */
const CANCEL_AGAIN_MS = 1000

export class JobQueue implements PublicQueue {
  readonly #settings: Settings
  readonly #names: Names
  readonly #redis: Redis
  readonly #queue: Queue
  readonly #scripts: Scripts
  readonly #closed = new AbortController()
  #events: Promise<FinishedEvents> | undefined
  #replies: Promise<Replies> | undefined
  #closing: Promise<void> | undefined

  constructor(options: JobQueueOptions) {
    const { name, redis, prefix, ...rest } = kinds.readWithDefaults(jobQueueOptions, options, 'new JobQueue')
    if (name === undefined || redis === undefined)
      throw new OptionError('INVALID_OPTION', 'new JobQueue needs name and redis')
    this.#settings = { ...rest, name, redis, prefix }
    this.#names = new Names(prefix, name)
    this.#redis = connect(redis, rest.logger)
    this.#scripts = new Scripts(this.#redis, this.#names)
    this.#queue = new Queue(name, { connection: this.#redis, prefix })
    this.#queue.on('error', ({ message }) => report(rest.logger, 'warn', `BullMQ: ${message}`))
  }

  async add(options: QueueAddOptions): Promise<QueueJob> {
    const values = kinds.readOptions(queueAddOptions, options, 'queue.add')
    const {
      command,
      cwd,
      env,
      timeout,
      limits,
      input,
      id = durable.freshJobId(),
      check = true,
      ...rest
    } = values
    if (command === undefined) throw new OptionError('INVALID_COMMAND', 'command must be given')
    const { onHostLost = queueAddOptions.onHostLost.default, ...bull } = rest
    if (onHostLost === 'retry' && (bull.attempts ?? 1) < 2)
      throw new OptionError('INVALID_OPTION', "onHostLost: 'retry' needs attempts of at least 2")
    const start = { command, cwd, env, timeout, limits, input }
    const about = { command: command.text ?? command.argv, queue: this.#settings.name, queueJobId: id }
    const job = await traceAdd(about, (trace) => {
      const data = encodeData(start, { uid: durable.freshJobId(), check, onHostLost, trace })
      return this.#open(() => this.#queue.add('job', data, { ...(bull as JobsOptions), jobId: id }))
    })
    // An id that is in the queue already is not added again: what it has counts, not what was given.
    return (await this.get(job.id ?? id)) ?? (await viewOf(this.#queue, this.#scripts, job))
  }

  async get(id: string): Promise<QueueJob | null> {
    const job = await this.#job(id)
    return job === undefined ? null : viewOf(this.#queue, this.#scripts, job)
  }

  async wait(id: string, options?: QueueWaitOptions): Promise<QueueJob> {
    const { signal } = kinds.readOptions(queueWaitOptions, options, 'queue.wait')
    return this.#wait(id, signal)
  }

  async cancel(id: string, options?: QueueCancelOptions): Promise<'removed' | 'ended' | 'requested'> {
    const values = kinds.readWithDefaults(queueCancelOptions, options, 'queue.cancel')
    const { forceKillAfterDelay: grace = '', timeout } = values
    const name = kinds.readArgument(queueName.read, id, 'id')
    const deadline = clock.performance.now() + timeout
    const finished = await this.#finished()
    const events = finished.listen(name)
    try {
      for (;;) {
        const [answer, owner] = await this.#open(() => this.#scripts.call<string[]>('cancel', name, grace))
        if (answer === 'missing') throw notFound(name)
        if (answer === 'finished') return 'ended'
        if (answer === 'removed' || (owner === '' && (await this.#remove(name)))) return 'removed'
        const left = deadline - clock.performance.now()
        if (left <= 0) return 'requested'
        await events.next(this.#closed.signal, Math.min(left, CANCEL_AGAIN_MS))
      }
    } finally {
      events.end()
    }
  }

  logs<E extends Encoding = 'utf8'>(
    id: string,
    options?: QueueLogsOptions<E>,
  ): AsyncIterableIterator<JobRead<E>, undefined> {
    const name = kinds.readArgument(queueName.read, id, 'id')
    const { attempt: given, ...values } = kinds.readWithDefaults(queueLogsOptions, options, 'queue.logs')
    let attempt = given
    const find = async () => {
      attempt ??= await this.#latestAttempt(name)
      if (attempt === undefined) return undefined
      const found = await locate(this.#scripts, name, attempt)
      if (found !== undefined) return found
      const job = await this.#job(name)
      // It may have run and been removed since the first look.
      const late = job === undefined ? await locate(this.#scripts, name, attempt) : undefined
      if (late !== undefined) return late
      if (job === undefined) throw notFound(name)
      if (job.attemptsMade < attempt && job.finishedOn === undefined) return undefined
      throw engineError('JOB_NOT_FOUND', `no host has output of attempt ${attempt} of '${name}'`)
    }
    const ref = () => ({ id: name, attempt: attempt ?? 1 })
    const plan = { ...values, maxBytes: jobReadOptions.maxBytes.default }
    const context = {
      find: () => this.#open(find),
      news: (stop: AbortSignal) => this.#begins(name, stop),
      open: async (stop: AbortSignal) => outputOfHost(await this.#answers(), ref(), find, stop),
    }
    return logsOf(context, plan, this.#closed.signal) as AsyncIterableIterator<JobRead<E>, undefined>
  }

  async list(options?: QueueListOptions): Promise<QueueJob[]> {
    const { limit, offset, state } = kinds.readWithDefaults(queueListOptions, options, 'queue.list')
    const states = state === undefined ? QUEUE_STATES : [state]
    const jobs = await this.#open(() => jobsIn(this.#queue, states, offset, limit))
    return Promise.all(jobs.map((job) => viewOf(this.#queue, this.#scripts, job)))
  }

  async counts(): Promise<Record<(typeof QUEUE_STATES)[number], number>> {
    const found = await this.#open(() => this.#queue.getJobCounts(...QUEUE_STATES))
    const entries = QUEUE_STATES.map((state) => [state, found[state] ?? 0])
    return Object.fromEntries(entries) as Record<(typeof QUEUE_STATES)[number], number>
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #wait(id: string, signal: AbortSignal | undefined): Promise<QueueJob> {
    const name = kinds.readArgument(queueName.read, id, 'id')
    const stop = signal === undefined ? this.#closed.signal : AbortSignal.any([signal, this.#closed.signal])
    const events = (await this.#finished()).listen(name)
    let last: QueueJob | undefined
    let isGone = false
    try {
      for (;;) {
        if (stop.aborted) throw new AbortError(stop.reason, undefined, 'the wait')
        const job = await this.get(name)
        if (job?.state === 'completed' || job?.state === 'failed') return job
        last = job ?? last
        if (last === undefined) throw notFound(name)
        const ending = await events.next(stop)
        const isHere = (await this.#job(name)) !== undefined
        // Without an event, there is one more look: it may be on its way, or there was none.
        if (!isHere && (ending !== undefined || isGone)) {
          const found = await viewOfGone(this.#scripts, last, ending)
          if (found === undefined) throw notFound(name)
          return found
        }
        isGone = !isHere
      }
    } finally {
      events.end()
    }
  }

  async #remove(id: string): Promise<boolean> {
    const job = await this.#job(id)
    if (job === undefined) return false
    if ((await job.getState()) === 'active') return false
    // A worker may have taken it meanwhile, and refuses it then.
    return job.remove().then(
      () => true,
      () => false,
    )
  }

  async #job(id: string): Promise<Job | undefined> {
    const name = kinds.readArgument(queueName.read, id, 'id')
    return this.#open(() => Job.fromId(this.#queue, name))
  }

  /** The attempt that runs or ran last; undefined when none has begun. */
  async #latestAttempt(id: string): Promise<number | undefined> {
    const job = await this.#job(id)
    if (job === undefined) throw notFound(id)
    const next = job.attemptsMade + 1
    if (job.finishedOn === undefined && (await locate(this.#scripts, id, next)) !== undefined) return next
    return job.attemptsMade === 0 ? undefined : job.attemptsMade
  }

  /** Resolves when a job has become active, or after a while. */
  async #begins(id: string, stop: AbortSignal): Promise<void> {
    const events = (await this.#finished()).listen(id)
    try {
      // BullMQ reports the job as active before its host claims it.
      if ((await this.#job(id)) !== undefined) await events.next(stop, CANCEL_AGAIN_MS / 4)
    } finally {
      events.end()
    }
  }

  #finished(): Promise<FinishedEvents> {
    const { name, prefix, logger } = this.#settings
    const open = () => FinishedEvents.open(this.#redis, { name, prefix, logger })
    this.#events ??= this.#open(open).catch((error: unknown) => {
      this.#events = undefined
      throw error
    })
    return this.#events
  }

  #answers(): Promise<Replies> {
    if (this.#replies !== undefined) return this.#replies
    const redis = connectAgain(this.#redis, this.#settings.logger)
    this.#replies = Replies.open(redis, this.#scripts, this.#names).catch((error: unknown) => {
      this.#replies = undefined
      redis.disconnect()
      throw error
    })
    return this.#replies
  }

  /** Calls Redis, unless the queue was closed. */
  async #open<T>(call: () => Promise<T>): Promise<T> {
    const { signal } = this.#closed
    const closed = () => new AbortError(signal.reason, undefined, 'the call of the queue')
    if (signal.aborted) throw closed()
    return call().catch((error: unknown) => {
      throw signal.aborted ? closed() : error
    })
  }

  async #close(): Promise<void> {
    this.#closed.abort(new Error('the queue was closed'))
    // Calls that wait for Redis end by this.
    this.#redis.disconnect()
    const [events, replies] = await Promise.all(
      [this.#events, this.#replies].map((part) => part?.catch(() => undefined)),
    )
    replies?.close()
    await events?.close()
    await this.#queue.close()
  }
}

function notFound(id: string): Error {
  return engineError('JOB_NOT_FOUND', `the queue has no job '${id}'`)
}
