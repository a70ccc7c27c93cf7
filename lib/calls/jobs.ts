/** Durable jobs. */

import type { Command, Encoding, EnvChanges, Output, SignalName } from '../base/types.js'
import { command, data } from '../schema/command.js'
import { oneOf } from '../schema/constructors.js'
import { env } from '../schema/env.js'
import { table } from '../schema/kind.js'
import { displayName, identifier } from '../schema/names.js'
import { count, milliseconds, seconds } from '../schema/numbers.js'
import { directory } from '../schema/paths.js'
import {
  boolean,
  date,
  number,
  optional,
  orNull,
  output,
  reply,
  text,
  unlessNull,
  word,
  wordOf,
  yes,
} from '../schema/reply.js'
import { abortSignal } from '../schema/signals.js'
import { encoding, flag } from '../schema/values.js'
import { signalName } from './exit.js'
import { type Limits, limits } from './limits.js'

/** The handle of a durable job: plain data, which you can store and send. Every call needs only its `jobId`. */
export interface JobHandle {
  jobId: string
  /** The job's directory. */
  dir: string
  /** The file with standard output and standard error together. */
  outputFile: string
  /**
   * The file with the exit code, once the command has ended. After a signal, the code is 128 plus the signal's number.
   */
  exitFile: string
  /** The process group of the job's supervisor. SIGTERM to this group cancels the job. */
  pgid: number
  /** Directory of the job's control group; null if it has none. */
  cgroup: string | null
  processName?: string
}

export const jobHandle = reply<JobHandle>(
  {
    jobId: text,
    dir: text,
    outputFile: text,
    exitFile: text,
    pgid: number,
    cgroup: orNull(text),
    processName: optional(text),
  },
  'Job',
)

/** A job in a list. */
export interface JobInfo extends JobHandle {
  /** null if the job's record has no date. */
  startTime: Date | null
  /** null for a job that nacre did not start. */
  command: string | null
  status: JobStatus
}

/** The status of a job. */
export interface JobStatus {
  /** The state. 'crashed' means that the job has ended without a record of its end. Its output is kept. */
  state: 'running' | 'exited' | 'crashed'
  /** null while the job runs, after a crash, and if a signal ended the command. Never guessed. */
  exitCode: number | null
  /** The signal that ended the command; null if none did, and while the job runs. */
  signal: SignalName | null
  /**
   * Why the job ended: 'exit' by itself, 'signal' by a signal from outside, 'timeout', 'cancelled', or 'oom' by its
   * memory limit. After a cancel or a timeout, `exitCode` or `signal` shows how the command reacted. After a crash,
   * 'killed' means that the supervisor was killed, and 'reboot' that the machine restarted. null while the job runs,
   * and if no reason was recorded.
   */
  reason: 'exit' | 'signal' | 'timeout' | 'cancelled' | 'oom' | 'killed' | 'reboot' | null
  /**
   * Whether any process of the job is running and may print more. Can be true after 'exited', while processes that the
   * command left behind run.
   */
  alive: boolean
  /** When the command ended; null if unknown. */
  endTime: Date | null
  /** Milliseconds that the command ran, by a monotonic clock; null if unknown. */
  duration: number | null
  /** True if the disk was full while the job ran and some output is lost. */
  outputLost?: true
}

export const jobStatus = reply<JobStatus>(
  {
    state: wordOf('running', 'exited', 'crashed'),
    exitCode: orNull(number),
    alive: boolean,
    outputLost: optional(yes),
    signal: unlessNull(signalName),
    reason: unlessNull(word<NonNullable<JobStatus['reason']>>()),
    endTime: unlessNull(date),
    duration: unlessNull(number),
  },
  'JobStatus',
)

export const jobInfo = reply<JobInfo>({
  ...jobHandle.fields,
  startTime: {
    ...date,
    description: 'ISO 8601; empty if the record of the job has no date.',
    encode: (time) => time?.toISOString() ?? '',
    decode: (json) => (json === '' ? null : new Date(json)),
  },
  command: unlessNull(text),
  status: jobStatus,
})

/** Argument of {@link Jobs.start}. */
export interface JobStartOptions {
  /** The command to run. */
  command: Command
  /**
   * The id: 1 to 128 characters of `A-Z a-z 0-9 . _ -`, not '.' or '..'. Default: an unguessable id that sorts by time.
   */
  jobId?: string
  /** Directory of the job. A relative path starts at the sandbox's directory. Default: the sandbox's. */
  cwd?: string | URL
  /** Changes to the environment of the sandbox, for this job. */
  env?: EnvChanges
  /** A name for people to read: 1 to 256 characters, no control characters. It need not be unique. */
  processName?: string
  /** Milliseconds until all processes of the job are killed, 0 to 2147483647; 0 = never. Default: 0. */
  timeout?: number
  /** The timeout in seconds, greater than 0, at most 2147483. Excludes `timeout`. Default: that of `timeout`. */
  timeoutSeconds?: number
  /** Limits of the job. Default: the sandbox's limits, for each job separately. */
  limits?: Limits
  /** Standard input. Default: end of file. */
  input?: string | Uint8Array
  /** Another name for `input`. Excludes `input`. Default: that of `input`. */
  stdin?: string | Uint8Array
}

export const jobStartOptions = table<JobStartOptions>()({
  command,
  jobId: identifier,
  cwd: directory,
  env,
  processName: displayName,
  timeout: { ...milliseconds, default: 0 },
  timeoutSeconds: seconds,
  limits,
  input: data,
  stdin: data,
})

/** Options of {@link Jobs.read}. */
export interface JobReadOptions<E extends Encoding = 'utf8'> {
  /** Maximum bytes per read, 1 to 67108864. In text, a longer character is returned whole. Default: 1048576. */
  maxBytes?: number
  /**
   * Whether to end the output at its last newline. An unterminated line is returned when the job is not `alive` any
   * more, or when it is as long as `maxBytes`. Default: false.
   */
  lines?: boolean
  /** 'utf8' gives strings, 'buffer' gives bytes. Default: 'utf8'. */
  encoding?: E
}

const MOST_READ_BYTES = 64 * 1024 * 1024

export const jobReadOptions = table<JobReadOptions<Encoding>>()({
  // Much output takes few calls, and little memory.
  maxBytes: { ...count(1, MOST_READ_BYTES, 'bytes'), default: 1_048_576 },
  lines: { ...flag, default: false },
  encoding: { ...encoding, default: 'utf8' },
})

/** Options of {@link Jobs.follow}. */
export interface JobFollowOptions<E extends Encoding = 'utf8'> extends JobReadOptions<E> {
  /** Aborting makes the iterator reject with an {@link AbortError}; the job continues. */
  signal?: AbortSignal
}

export const jobFollowOptions = table<JobFollowOptions<Encoding>>()({
  ...jobReadOptions,
  signal: abortSignal,
})

/** Options of {@link Jobs.wait}. */
export interface JobWaitOptions {
  /** Aborting rejects the wait with an {@link AbortError}; the job continues. */
  signal?: AbortSignal
}

export const jobWaitOptions = table<JobWaitOptions>()({ signal: abortSignal })

/** Options of {@link Jobs.cancel}. */
export interface JobCancelOptions {
  /** Milliseconds between SIGTERM and SIGKILL, 0 to 2147483647. Default: the sandbox's. */
  forceKillAfterDelay?: number
  /** Another name for `forceKillAfterDelay`, 0 to 2147483647. Excludes `forceKillAfterDelay`. Default: the sandbox's. */
  graceMs?: number
}

export const jobCancelOptions = table<JobCancelOptions>()({
  forceKillAfterDelay: milliseconds,
  graceMs: milliseconds,
})

/** Selects jobs that match all members. */
export interface JobFilter {
  /** Only jobs in this state. Default: jobs in any state. */
  state?: JobStatus['state']
  /** Only jobs with this name: 1 to 256 characters, no control characters. Default: jobs with any name. */
  processName?: string
}

export const jobListOptions = table<JobFilter>()({
  state: oneOf(['running', 'exited', 'crashed']),
  processName: displayName,
})

/** Options of {@link Jobs.prune}. */
export interface JobPruneOptions {
  /**
   * Only jobs that ended at least this many milliseconds ago, 0 to Number.MAX_SAFE_INTEGER. For a crashed job, the time
   * counts from its start. Default: 0.
   */
  olderThan?: number
}

export const jobPruneOptions = table<JobPruneOptions>()({
  olderThan: { ...count(0, Number.MAX_SAFE_INTEGER, 'ms'), default: 0 },
})

/** A part of a job's output. */
export interface JobRead<E extends Encoding = 'utf8'> {
  /** Output. Characters of text are never split, and invalid bytes become U+FFFD. */
  raw: Output<E>
  /** The byte offset from which to continue, for any encoding. */
  cursor: number
  /** Number of output bytes in `raw`. */
  bytesFetched: number
  /** The status just before the output was read. If it is not `alive` and the read is empty, no output is left. */
  status: JobStatus
}

export const jobRead = reply<JobRead<Encoding>>({
  raw: output,
  cursor: number,
  bytesFetched: number,
  status: jobStatus,
})

/**
 * Durable jobs: commands that outlive this sandbox and this program. Any later program can read them by their id.
 *
 * The directory of a job holds its whole state; docs/jobs.md describes the format. A job starts with the sandbox's
 * directory and environment, not with the state of a session. It stays, with its output, until `remove` or `prune`.
 * Methods take an id or a handle. They use only the `jobId` of a handle, so a handle cannot lead outside
 * {@link Jobs.root}. Unknown ids reject with JOB_NOT_FOUND, and so does a call whose job is removed meanwhile. If a job
 * cannot be looked up, for example without a free file descriptor, calls reject with ENGINE_ERROR.
 */
export interface Jobs {
  /** The directory of all jobs. */
  readonly root: string
  /**
   * Starts a job. Resolves when the command is running and the job can be found. If this program ends meanwhile, for
   * whatever reason, the job either exists completely or not at all.
   *
   * Rejects with OptionError, or SandboxError: JOB_ALREADY_EXISTS, CWD_NOT_FOUND, LIMIT_UNSUPPORTED,
   * STATE_DIR_UNAVAILABLE, SPAWN_FAILED. After a rejection, nothing runs and no directory remains.
   */
  start(options: JobStartOptions): Promise<JobHandle>
  status(job: JobHandle | string): Promise<JobStatus>
  /** Reads the output starting at `cursor` (default: 0), without waiting. Beyond the end, the result is empty. */
  read<E extends Encoding = 'utf8'>(
    job: JobHandle | string,
    cursor?: number,
    options?: JobReadOptions<E>,
  ): Promise<JobRead<E>>
  /**
   * Iterates over the output from `cursor` (default: 0) on, also new output, until the job is not `alive` any more:
   * background processes of an ended command may still print. No chunk is empty.
   */
  follow<E extends Encoding = 'utf8'>(
    job: JobHandle | string,
    cursor?: number,
    options?: JobFollowOptions<E>,
  ): AsyncIterableIterator<JobRead<E>>
  /**
   * Waits until the command has ended, not for background processes that it left behind. Rejects with an
   * {@link AbortError} if the signal is aborted.
   */
  wait(job: JobHandle | string, options?: JobWaitOptions): Promise<JobStatus>
  /**
   * Kills all processes of a job, including those that left its session or group: SIGTERM, then SIGKILL after
   * `forceKillAfterDelay` (default: the sandbox's at the start of the job). Resolves when all have ended, or
   * immediately if the job has already ended. Rejects with JOB_RUNNING if another package started the job.
   */
  cancel(job: JobHandle | string, options?: JobCancelOptions): Promise<void>
  /** Returns the handle of a job, or null if the job does not exist or its meta.json is damaged. */
  attach(id: string): Promise<JobHandle | null>
  /** Lists the jobs that match the filter, in start order. */
  list(filter?: JobFilter): Promise<JobInfo[]>
  /** Removes the directory of an ended job. Rejects with JOB_RUNNING while any process of the job runs. */
  remove(job: JobHandle | string): Promise<void>
  /**
   * Removes ended jobs and resolves with their ids, also jobs that other programs have started in the same
   * {@link Jobs.root}. A job stays while any of its processes runs.
   */
  prune(options?: JobPruneOptions): Promise<string[]>
}

/** {@link Jobs} that may be those of a server: without `root`. Over HTTP, `follow` continues after a restart of the server. */
export type RemoteJobs = Omit<Jobs, 'root'>
