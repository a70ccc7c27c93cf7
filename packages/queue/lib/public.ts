/**
 * `@nacre/queue`: durable jobs over many hosts. BullMQ distributes the jobs, and each runs as a durable job of one host.
 * Needs Redis 7.0 or newer. docs/queue.md describes the guarantees and their limits.
 *
 * @module packages/queue
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
} from 'nacre'

/**
 * How to connect to Redis: a URL like 'redis://127.0.0.1:6379', options of ioredis, or a client of ioredis. nacre uses
 * only the settings of a client, not the client itself.
 */
export type RedisConnection = string | URL | object

/** The pause before a retry, as in BullMQ: a fixed number of milliseconds, or a strategy. */
export type QueueBackoff = number | { type: 'fixed' | 'exponential'; delay: number; jitter?: number }

/** Which finished jobs BullMQ removes: true removes all, a number is how many stay. `age` is in seconds. */
export type QueueKeep = boolean | number | { age?: number; count?: number }

/** What to do with a job whose host is lost. */
export type OnHostLost = 'fail' | 'retry'

/** Options of {@link JobQueue}. */
export interface JobQueueOptions {
  /** The name of the queue, without ':'; 1 to 100 characters of `A-Z a-z 0-9 . _ -`. */
  name: string
  /** How to connect to Redis. */
  redis: RedisConnection
  /** The prefix of all keys in Redis. Default: 'bull'. */
  prefix?: string
  /** Receives connection errors. Connections are retried until they succeed. Default: none. */
  logger?: Logger
}

/** Argument of {@link JobQueue.add}. */
export interface QueueAddOptions {
  /** The command to run. */
  command: Command
  /**
   * The id of the job: 1 to 100 characters of `A-Z a-z 0-9 . _ -`, not a whole number. If the queue already has the id,
   * nothing is added. Default: an unguessable id that sorts by time.
   */
  id?: string
  /** Directory of the job. A relative path starts at the directory of the worker's sandbox. Default: the sandbox's. */
  cwd?: string | URL
  /** Changes to the environment of the worker's sandbox, for this job. */
  env?: EnvChanges
  /** Milliseconds until all processes of an attempt are killed, 0 to 2147483647; 0 = never. Default: 0. */
  timeout?: number
  /** Limits of the job. Default: those of the worker's sandbox. */
  limits?: Limits
  /** Standard input, which is stored in Redis. Default: end of file. */
  input?: string | Uint8Array
  /** Maximum number of attempts, 1 to 1000000. Default: 1. */
  attempts?: number
  /** The pause before a retry. Default: none. */
  backoff?: QueueBackoff
  /** Priority, 0 to 2097151. Jobs with lower numbers run first; 0 comes before all others. Default: 0. */
  priority?: number
  /** Milliseconds before the job may run, 0 to 2147483647. Default: 0. */
  delay?: number
  /** Whether to put the job in front of the jobs that are already waiting. Default: false. */
  lifo?: boolean
  /** Which completed jobs BullMQ removes: true removes all, a number is how many stay. Default: all stay. */
  removeOnComplete?: QueueKeep
  /** Which failed jobs BullMQ removes: true removes all, a number is how many stay. Default: all stay. */
  removeOnFail?: QueueKeep
  /** Whether the job fails unless its command exits with code 0. Default: true. */
  check?: boolean
  /**
   * What to do if the host of an attempt is lost. 'fail' fails the job, because its process may still run on a host
   * that is only disconnected. 'retry' makes the next attempt on another host, and needs `attempts` of at least 2.
   * Default: 'fail'.
   */
  onHostLost?: OnHostLost
}

/** The result of an attempt. The `returnvalue` of a BullMQ job is the same, with dates as ISO strings. */
export interface QueueResult {
  /** null if a signal ended the command, if it did not start, and if its host was lost. */
  exitCode: number | null
  signal: SignalName | null
  /**
   * The reason, as in {@link JobStatus}. 'start-failed' means that nothing ran, and 'host-lost' that the end is
   * unknown. 'cancelled' can also mean that the job was cancelled before it started.
   */
  reason: JobStatus['reason'] | 'start-failed' | 'host-lost'
  /** Why the attempt did not complete; null if it did. */
  error: string | null
  /** The error code of a failed start, or HOST_LOST. */
  code: string | null
  /** The host that ran the attempt; null if none did. */
  host: string | null
  /** The number of the attempt; the first is 1. */
  attempt: number
  /** The id of the durable job on that host. */
  jobId: string
  startTime: Date | null
  endTime: Date | null
  /** Milliseconds that the command ran. */
  duration: number | null
  /** Length of the output in bytes. */
  bytes: number
  /** True if the disk of the host was full and some output is lost. */
  outputLost?: true
}

/** A job of the queue, at the time it was read. */
export interface QueueJob {
  id: string
  /** The state, as in BullMQ. 'unknown' means that it changed during the read. */
  state: 'waiting' | 'prioritized' | 'delayed' | 'active' | 'completed' | 'failed' | 'unknown'
  command: Command
  /** The number of the running, next or last attempt; the first is 1. */
  attempt: number
  /** The host of that attempt; null until it has one. */
  host: string | null
  /** Last reported length of the output in bytes. */
  progress: number
  /** The result of the last attempt; null until the job has finished. */
  result: QueueResult | null
  /** Why the job failed; null if it did not fail. */
  failedReason: string | null
  createdAt: Date
  /** When the last attempt began. */
  startTime: Date | null
  endTime: Date | null
}

/** Options of {@link JobQueue.wait}. */
export interface QueueWaitOptions {
  /** Aborting rejects the wait with an {@link AbortError}; the job continues. */
  signal?: AbortSignal
}

/** Options of {@link JobQueue.cancel}. */
export interface QueueCancelOptions {
  /** Milliseconds between SIGTERM and SIGKILL, 0 to 2147483647. Default: the `forceKillAfterDelay` of the worker's sandbox. */
  forceKillAfterDelay?: number
  /** Milliseconds to wait for the end of the job, 0 to 2147483647; 0 does not wait. Default: 30000. */
  timeout?: number
}

/** Options of {@link JobQueue.logs}. */
export interface QueueLogsOptions<E extends Encoding = 'utf8'> {
  /** Byte offset at which to begin, 0 to Number.MAX_SAFE_INTEGER. Default: 0. */
  cursor?: number
  /** Whether to continue until the attempt ends. Default: false. */
  follow?: boolean
  /** The number of the attempt, 1 to 1000000. Default: the latest attempt. */
  attempt?: number
  /** Whether to end the output at its last newline, as in {@link Jobs.read}. Default: false. */
  lines?: boolean
  /** 'utf8' gives strings, 'buffer' gives bytes. Default: 'utf8'. */
  encoding?: E
  /** Aborting makes the iterator reject with an {@link AbortError}; the job continues. */
  signal?: AbortSignal
}

/** Argument of {@link JobQueue.list}. */
export interface QueueListOptions {
  /** Only jobs in this state. Default: jobs in any state. */
  state?: Exclude<QueueJob['state'], 'unknown'>
  /** Maximum number of jobs, 1 to 100000. Default: 100. */
  limit?: number
  /** Number of jobs to skip, 0 to Number.MAX_SAFE_INTEGER. Default: 0. */
  offset?: number
}

/**
 * A client of a queue of durable jobs: adds, reads and cancels jobs. It needs no engine, only access to Redis.
 *
 * While Redis is unreachable, methods wait. Unknown ids reject with JOB_NOT_FOUND.
 */
export declare class JobQueue implements AsyncDisposable {
  /** Connects in the background. Throws {@link OptionError}. */
  constructor(options: JobQueueOptions)
  /** Adds a job. Resolves when it is in the queue. Rejects with {@link OptionError}. */
  add(options: QueueAddOptions): Promise<QueueJob>
  /** Returns a job, or null if it is not in the queue. */
  get(id: string): Promise<QueueJob | null>
  /** Waits until a job has completed, failed its last attempt, or was removed. Resolves for a failed job too. */
  wait(id: string, options?: QueueWaitOptions): Promise<QueueJob>
  /**
   * Removes a waiting job, or kills all processes of a running job, on any host. The job is not retried. Idempotent.
   *
   * 'removed' means that the job had not started, and 'ended' that it has finished. 'requested' means that it did not
   * end within `timeout`; the request remains, and takes effect when the job's host can be reached.
   */
  cancel(id: string, options?: QueueCancelOptions): Promise<'removed' | 'ended' | 'requested'>
  /**
   * Iterates over the exact output of an attempt, from any host. Each chunk has the cursor from which to continue. With
   * `follow`, the job need not have started yet. Rejects with HOST_LOST if the host is lost.
   */
  logs<E extends Encoding = 'utf8'>(
    id: string,
    options?: QueueLogsOptions<E>,
  ): AsyncIterableIterator<JobRead<E>>
  list(options?: QueueListOptions): Promise<QueueJob[]>
  /** Returns the number of jobs in each state. */
  counts(): Promise<Record<Exclude<QueueJob['state'], 'unknown'>, number>>
  /** Closes the connections. Jobs are unaffected. Waits reject with an {@link AbortError}. Idempotent. */
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/** Options of {@link JobWorker}. */
export interface JobWorkerOptions {
  /** The name of the queue. */
  name: string
  /** How to connect to Redis. */
  redis: RedisConnection
  /** The prefix of all keys in Redis. Default: 'bull'. */
  prefix?: string
  /** The `jobs` of a `Sandbox` or a `SandboxClient`, which run the commands. */
  jobs: Pick<Jobs, 'start' | 'status' | 'read' | 'follow' | 'wait' | 'cancel' | 'attach' | 'list' | 'remove'>
  /**
   * The id of the host that runs the jobs: 1 to 64 characters of `A-Z a-z 0-9 . _ -`. It must stay the same after a
   * restart of the worker, and belong to no other directory of jobs.
   */
  host: string
  /** Maximum number of jobs that run at the same time, 1 to 100000. Default: 1. */
  concurrency?: number
  /** Starts at most `max` jobs per `duration` in milliseconds, over all workers, as in BullMQ. Default: no limit. */
  limiter?: { max: number; duration: number }
  /** Milliseconds for which a host may be silent before it counts as lost, 1000 to 2147483647. Default: 60000. */
  lease?: number
  /**
   * The lease after `close` while jobs are still running: at least `lease`, 1000 to 2147483647. Default: 600000, or
   * `lease` if that is longer.
   */
  absence?: number
  /**
   * Milliseconds for which a worker may be silent before BullMQ offers its job to another worker, 1000 to 2147483647.
   * Default: 30000.
   */
  lockDuration?: number
  /** Milliseconds between two checks for jobs of silent workers, 100 to 2147483647. Default: 30000. */
  stalledInterval?: number
  /** Milliseconds between two progress reports, 1 to 2147483647. Default: 1000. */
  progressInterval?: number
  /**
   * Milliseconds for which this host keeps ended jobs and their logs, 1000 to 2147483647. Default: 86400000 (a day).
   */
  retention?: number
  /** Receives the activity of the worker and its errors. Default: none. */
  logger?: Logger
}

/** Counters of a worker since it started; `running` is the current number. */
export interface JobWorkerMetrics {
  /** Running jobs of this host. */
  running: number
  started: number
  /** Running jobs that the worker found when it started. */
  attached: number
  completed: number
  /** Attempts that failed. */
  failed: number
  /** Jobs that BullMQ considered stalled. They continue. */
  stalled: number
  /** Jobs passed on to the host on which they run. */
  handedOver: number
  /** Attempts that this worker reported as HOST_LOST. */
  lost: number
}

/**
 * A worker of a queue, which runs jobs as durable jobs of one host. The jobs outlive the worker, and the next worker
 * attaches to them.
 */
export declare class JobWorker implements AsyncDisposable {
  /** Does no I/O. Throws {@link OptionError}. */
  constructor(options: JobWorkerOptions)
  /**
   * Registers the host, attaches to its running jobs and starts to take new jobs. Rejects with HOST_ID_IN_USE
   * ({@link SandboxError}) if another worker has the same `host`, and with an {@link AbortError} if the worker is
   * closed meanwhile.
   */
  start(): Promise<void>
  /**
   * Resolves when the worker has stopped after `close`. Rejects if the worker stops with an error, as when another
   * worker takes over its host.
   */
  readonly stopped: Promise<void>
  metrics(): JobWorkerMetrics
  /**
   * Stops taking jobs and closes the connections. Running jobs continue, and the next worker of this host attaches to
   * them. Idempotent.
   */
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}
