/**
 * `nacre/queue`: durable jobs over many hosts. BullMQ distributes them, and each runs as a durable job of one host. Needs
 * `bullmq`, `ioredis` and Redis 7.0 or newer. docs/queue.md describes the guarantees and their limits.
 *
 * @packageDocumentation
 */

import type {
  AbortError,
  Command,
  Encoding,
  EnvChanges,
  JobRead,
  JobStatus,
  Jobs,
  Limits,
  Logger,
  OptionError,
  SandboxError,
  SignalName,
} from './index.js'

/**
 * How to reach Redis: a URL like 'redis://127.0.0.1:6379', or options of ioredis. A client of ioredis is accepted as well:
 * its settings are used, and the client itself is not.
 */
export type RedisConnection = string | URL | object

/** A pause before a retry, as in BullMQ: milliseconds, or how they grow. */
export type QueueBackoff = number | { type: 'fixed' | 'exponential'; delay: number; jitter?: number }

/** Which finished jobs BullMQ keeps: true removes all, a number is how many stay. `age` is in seconds. */
export type QueueKeep = boolean | number | { age?: number; count?: number }

/** What becomes of an attempt whose host was lost. */
export type OnHostLost = 'fail' | 'retry'

/** Options of {@link JobQueue}. */
export interface JobQueueOptions {
  /** The name of the queue, without ':'; 1 to 100 characters of `A-Z a-z 0-9 . _ -`. Required. */
  name: string
  /** Where Redis is. Required. */
  redis: RedisConnection
  /** The prefix of all keys in Redis. Default: 'bull'. */
  prefix?: string
  /** The token of the servers that workers announce with `url`. Default: none. */
  token?: string
  /** Receives errors of connections, which are repeated until they succeed. Default: none. */
  logger?: Logger
}

/** Argument of {@link JobQueue.add}. */
export interface QueueAddOptions {
  command: Command
  /**
   * The id of the job: 1 to 100 characters of `A-Z a-z 0-9 . _ -`, not a whole number. An id that is in the queue already is
   * not added again. Default: an id that cannot be guessed and sorts by time.
   */
  id?: string
  /** A relative path is resolved against the sandbox of the worker. Default: that sandbox's directory. */
  cwd?: string | URL
  /** Environment changes over those of the worker's sandbox. */
  env?: EnvChanges
  /** Milliseconds until everything of an attempt is killed, 0 to 2147483647; 0 = none. Default: 0. */
  timeout?: number
  /** Limits of the job. Default: those of the worker's sandbox. */
  limits?: Limits
  /** Standard input; it is stored in Redis. Default: none, the command reads end of file. */
  input?: string | Uint8Array
  /** How often the job may run until it completes, 1 to 1000000. Default: 1. */
  attempts?: number
  /** The pause before a retry. Default: none. */
  backoff?: QueueBackoff
  /** 0 to 2097151. Jobs with 0 run first, then those with lower numbers. Default: 0. */
  priority?: number
  /** Milliseconds before the job may run, 0 to 2147483647. Default: 0. */
  delay?: number
  /** Whether it runs before the jobs that wait already. Default: false. */
  lifo?: boolean
  /** Which completed jobs stay in the queue. Default: false, all stay. */
  removeOnComplete?: QueueKeep
  /** Which failed jobs stay in the queue. Default: false, all stay. */
  removeOnFail?: QueueKeep
  /** Whether the job fails when its command ends in another way than with exit code 0. Default: true. */
  check?: boolean
  /**
   * After the host of an attempt was lost: 'fail' fails the job, because its process may still run on a host that is only
   * cut off. 'retry' makes the next attempt on another host, and needs `attempts` of at least 2. Default: 'fail'.
   */
  onHostLost?: OnHostLost
}

/** How an attempt has ended. The result of a BullMQ job (`returnvalue`) is the same, with dates as ISO strings. */
export interface QueueResult {
  /** null when a signal ended the command, when it did not start, and when its host was lost. */
  exitCode: number | null
  signal: SignalName | null
  /**
   * As in {@link JobStatus}. Also 'start-failed': nothing has run; 'host-lost': its end is not known; 'cancelled' also for a
   * job that was cancelled before it started.
   */
  reason: JobStatus['reason'] | 'start-failed' | 'host-lost'
  /** Why it did not complete; null when it did. */
  error: string | null
  /** The code of the error of the start, or HOST_LOST. */
  code: string | null
  /** The host that ran it; null when none did. */
  host: string | null
  /** The first attempt is 1. */
  attempt: number
  /** The id of the durable job on that host. */
  jobId: string
  startedAt: Date | null
  endedAt: Date | null
  /** Milliseconds that the command ran. */
  duration: number | null
  /** Length of the output. */
  bytes: number
  /** The disk of the host was full, and some output is lost. */
  outputLost?: true
}

/** A job of the queue, as it was when it was read. */
export interface QueueJob {
  id: string
  /** As in BullMQ. 'unknown': its state changed while it was read. */
  state: 'waiting' | 'prioritized' | 'delayed' | 'active' | 'completed' | 'failed' | 'unknown'
  command: Command
  /** The attempt that runs, or comes next, or was the last. The first is 1. */
  attempt: number
  /** The host of that attempt; null before it has one. */
  host: string | null
  /** Length of the output, as last reported. */
  progress: number
  /** How the last attempt ended; null while the job has not finished. */
  result: QueueResult | null
  /** Why it failed; null otherwise. */
  failedReason: string | null
  createdAt: Date
  /** When an attempt was last begun. */
  processedAt: Date | null
  finishedAt: Date | null
}

/** Options of {@link JobQueue.wait}. */
export interface QueueWaitOptions {
  /** Aborting rejects the wait with an {@link AbortError}; the job continues. */
  signal?: AbortSignal
}

/** Options of {@link JobQueue.cancel}. */
export interface QueueCancelOptions {
  /** Milliseconds between SIGTERM and SIGKILL, 0 to 2147483647. Default: that of the worker's sandbox. */
  forceKillAfterDelay?: number
  /** Milliseconds to wait for the end of the job, 0 to 2147483647; 0 does not wait. Default: 30000. */
  timeout?: number
}

/** Options of {@link JobQueue.logs}. */
export interface QueueLogsOptions<E extends Encoding = 'utf8'> {
  /** Where to begin: an offset in bytes, 0 to Number.MAX_SAFE_INTEGER. Default: 0. */
  cursor?: number
  /** Whether to continue until the attempt has ended. Default: false. */
  follow?: boolean
  /** Which attempt, 1 to 1000000. Default: the latest. */
  attempt?: number
  /** Whether to cut after the last newline, as in {@link Jobs.read}. Default: false. */
  lines?: boolean
  /** Default: 'utf8'. */
  encoding?: E
  /** Aborting makes the iterator reject with an {@link AbortError}; the job continues. */
  signal?: AbortSignal
}

/** Argument of {@link JobQueue.list}. */
export interface QueueListOptions {
  /** Only jobs in this state. Default: jobs in every state. */
  state?: Exclude<QueueJob['state'], 'unknown'>
  /** How many, 1 to 100000. Default: 100. */
  limit?: number
  /** How many to skip, 0 to Number.MAX_SAFE_INTEGER. Default: 0. */
  offset?: number
}

/**
 * A queue of durable jobs, from the side of those that add them. It needs no engine, and runs wherever Redis is reachable.
 *
 * Methods wait for Redis when it is away. Unknown ids are JOB_NOT_FOUND.
 */
export declare class JobQueue implements AsyncDisposable {
  /** Connects in the background. Throws {@link OptionError}. */
  constructor(options: JobQueueOptions)
  /** Adds a job, and resolves when it is in the queue. Rejects with {@link OptionError}. */
  add(options: QueueAddOptions): Promise<QueueJob>
  /** A job, or null when it is not in the queue. */
  get(id: string): Promise<QueueJob | null>
  /** Waits until a job has completed, or failed after its last attempt, or was removed. Both ends resolve. */
  wait(id: string, options?: QueueWaitOptions): Promise<QueueJob>
  /**
   * Removes a job that waits, and kills everything of a job that runs, on whichever host. It is not tried again. Idempotent.
   *
   * 'removed': it had not started. 'ended': it has finished. 'requested': it has not ended within `timeout`; the request
   * stays, and takes effect as soon as the job's host can be reached.
   */
  cancel(id: string, options?: QueueCancelOptions): Promise<'removed' | 'ended' | 'requested'>
  /**
   * The output of an attempt, byte for byte, from whichever host has it. Each piece has the cursor to continue from. With
   * `follow`, also the output of a job that has not started yet. Rejects with HOST_LOST when the host is gone.
   */
  logs<E extends Encoding = 'utf8'>(
    id: string,
    options?: QueueLogsOptions<E>,
  ): AsyncIterableIterator<JobRead<E>, undefined>
  list(options?: QueueListOptions): Promise<QueueJob[]>
  /** How many jobs are in each state. */
  counts(): Promise<Record<Exclude<QueueJob['state'], 'unknown'>, number>>
  /** Closes the connections. Jobs are unaffected. Waits reject with an {@link AbortError}. Idempotent. */
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/** Options of {@link JobWorker}. */
export interface JobWorkerOptions {
  /** The name of the queue. Required. */
  name: string
  /** Where Redis is. Required. */
  redis: RedisConnection
  /** The prefix of all keys in Redis. Default: 'bull'. */
  prefix?: string
  /** The durable jobs of a `Sandbox` or a `SandboxClient`, where the commands run. Required. */
  jobs: Pick<Jobs, 'start' | 'status' | 'read' | 'follow' | 'wait' | 'cancel' | 'attach' | 'list' | 'remove'>
  /**
   * The id of the host whose jobs these are: 1 to 64 characters of `A-Z a-z 0-9 . _ -`. It must stay the same after a restart
   * of the worker, and belong to no other directory of jobs. Required.
   */
  host: string
  /** The URL of a `nacre serve` with the same jobs, from which queues read logs directly. Default: none, logs go through Redis. */
  url?: string
  /** How many jobs run at a time, 1 to 100000. Default: 1. */
  concurrency?: number
  /** At most `max` jobs in each `duration` of milliseconds, over all workers, as in BullMQ. Default: no limit. */
  limiter?: { max: number; duration: number }
  /** Milliseconds after which a silent host counts as lost, 1000 to 2147483647. Default: 60000. */
  lease?: number
  /**
   * The same after `close`, when jobs are still running: at least `lease`, 1000 to 2147483647. Default: 600000, or `lease` if
   * that is longer.
   */
  absence?: number
  /** Milliseconds after which BullMQ offers the job of a silent worker to another, 1000 to 2147483647. Default: 30000. */
  lockDuration?: number
  /** Milliseconds between two searches for such jobs, 100 to 2147483647. Default: 30000. */
  stalledInterval?: number
  /** Milliseconds between two reports of progress, 1 to 2147483647. Default: 1000. */
  progressInterval?: number
  /** Milliseconds that ended jobs and their logs stay on this host, 1000 to 2147483647. Default: 86400000 (a day). */
  retention?: number
  /** Receives what the worker does, and its errors. Default: none. */
  logger?: Logger
}

/** Numbers of a worker since it started; `running` is the current one. */
export interface JobWorkerMetrics {
  /** Jobs of this host that run. */
  running: number
  started: number
  /** Running jobs that the worker found when it started. */
  attached: number
  completed: number
  /** Attempts that failed. */
  failed: number
  /** Jobs that BullMQ took for stalled. They continue. */
  stalled: number
  /** Jobs that were passed to the host on which they run. */
  handedOver: number
  /** Attempts that this worker reported as HOST_LOST. */
  lost: number
}

/**
 * A worker of a queue: it runs jobs as durable jobs of one host. They outlive it, and its next start attaches to them.
 */
export declare class JobWorker implements AsyncDisposable {
  /** Does no I/O. Throws {@link OptionError}. */
  constructor(options: JobWorkerOptions)
  /**
   * Registers the host, attaches to its running jobs and begins to take new ones. Rejects with {@link SandboxError}
   * HOST_ID_IN_USE when another worker has the same `host`, and with an {@link AbortError} when it is closed meanwhile.
   */
  start(): Promise<void>
  /** Resolves when the worker has stopped: after `close`; or with an error, as when another worker has taken over its host. */
  readonly stopped: Promise<void>
  metrics(): JobWorkerMetrics
  /** Takes no more jobs and closes the connections. Running jobs continue, until the next worker of this host attaches. Idempotent. */
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}
