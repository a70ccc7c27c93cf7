/** Durable jobs. */

import type { Command, Encoding, EnvChanges, Output, SignalName } from './command.js'
import type { AbortError, OptionError } from './errors.js'
import type { Limits, Sandbox } from './sandbox.js'

/** A durable job: plain data, which can be stored and sent elsewhere. `jobId` alone is enough for every call. */
export interface JobHandle {
  jobId: string
  /** The job's directory. */
  dir: string
  /** Standard output and standard error together. */
  outputFile: string
  /** Holds the exit code once the command has ended; 128 and the signal's number when a signal ended it. */
  exitFile: string
  /** The process group of the job's supervisor: SIGTERM to it is a cancel. */
  pgid: number
  /** Directory of the job's control group; null when it has none. */
  cgroup: string | null
  processName?: string
}

/** A job in a list. */
export interface JobInfo extends JobHandle {
  /** null when its record has none. */
  createdAt: Date | null
  /** null for a job that nacre has not started. */
  command: string | null
  status: JobStatus
}

/** How a job is. */
export interface JobStatus {
  /** 'crashed': it is gone and nobody has recorded how. Its output is kept. */
  state: 'running' | 'exited' | 'crashed'
  /** null while it runs, after a crash, and when a signal ended the command. Never guessed. */
  exitCode: number | null
  /** The signal that ended the command; null when none did, or it runs. */
  signal: SignalName | null
  /**
   * Why it ended: 'exit' by itself, 'signal' by a signal of somebody, 'timeout', 'cancelled', 'oom' by its memory limit.
   * After a cancel or a timeout the code or the signal is what the command itself made of it. Of a crash: 'killed' when
   * the supervisor was, 'reboot' when the machine was started anew. null while it runs, and when nothing has recorded it.
   */
  reason: 'exit' | 'signal' | 'timeout' | 'cancelled' | 'oom' | 'killed' | 'reboot' | null
  /** Something of the job runs. True after 'exited' as long as processes run that the command has left behind. */
  alive: boolean
  /** When the command ended; null when that is not known. */
  endedAt: Date | null
  /** Milliseconds that it ran, by a monotonic clock; null when that is not known. */
  duration: number | null
  /** The disk was full while it ran: what was printed then is lost. */
  outputLost?: true
}

/** Argument of {@link Jobs.start}. */
export interface JobStartOptions {
  command: Command
  /** 1 to 128 characters of `A-Z a-z 0-9 . _ -`, not '.' or '..'. Default: one that cannot be guessed and sorts by time. */
  jobId?: string
  /** A relative path is resolved against the sandbox's. Default: the sandbox's. */
  cwd?: string | URL
  /** Environment changes over the sandbox's. */
  env?: EnvChanges
  /** For people: 1 to 256 characters, no control characters. */
  processName?: string
  /** Milliseconds until everything of the job is ended, 0 to 2147483647; 0 = none. Default: 0. */
  timeout?: number
  /** The same in seconds, greater than 0, at most 2147483; excludes `timeout`. */
  timeoutSeconds?: number
  /** What the job may use. Default: the sandbox's limits, for each job by itself. */
  limits?: Limits
  /** What the command reads from its standard input. Default: end of file at once. */
  input?: string | Uint8Array
  /** The same; excludes `input`. */
  stdin?: string | Uint8Array
}

/** Options of {@link Jobs.read}. */
export interface JobReadOptions<E extends Encoding = 'utf8'> {
  /** 1 to 67108864. As text a character that is longer comes whole. Default: 1048576. */
  maxBytes?: number
  /**
   * Whether to cut behind the last newline. What is without one is kept back until the job has ended, or is as long as
   * `maxBytes`. Default: false.
   */
  lines?: boolean
  /** Default: 'utf8'. */
  encoding?: E
}

/** Options of {@link Jobs.follow}. */
export interface JobFollowOptions<E extends Encoding = 'utf8'> extends JobReadOptions<E> {
  /** Aborting makes the iterator reject with an {@link AbortError}; the job goes on. */
  signal?: AbortSignal
}

/** Options of {@link Jobs.wait}. */
export interface JobWaitOptions {
  /** Aborting rejects the wait with an {@link AbortError}; the job goes on. */
  signal?: AbortSignal
}

/** Options of {@link Jobs.cancel}. */
export interface JobCancelOptions {
  /** Milliseconds between SIGTERM and SIGKILL, 0 to 2147483647. Default: the sandbox's. */
  forceKillAfterDelay?: number
  /** The same, 0 to 2147483647; excludes `forceKillAfterDelay`. */
  graceMs?: number
}

/** Which jobs to list: those that all of this is true of. */
export interface JobFilter {
  /** Only jobs in this state. */
  state?: JobStatus['state']
  /** Only jobs of this name: 1 to 256 characters, no control characters. */
  processName?: string
}

/** Options of {@link Jobs.prune}. */
export interface JobPruneOptions {
  /**
   * Only jobs that ended at least this many milliseconds ago, 0 to Number.MAX_SAFE_INTEGER. A crashed job counts from its
   * start. Default: 0.
   */
  olderThan?: number
}

/** A part of a job's output. */
export interface JobRead<E extends Encoding = 'utf8'> {
  /** As text, characters are never split and invalid bytes become U+FFFD. */
  raw: Output<E>
  /** Where to read on: an offset in bytes in the output, whatever the encoding. */
  cursor: number
  /** How many bytes `raw` stands for. */
  bytesFetched: number
  /** Taken before the output was read: when the job has ended and nothing was fetched, there is nothing more. */
  status: JobStatus
}

/**
 * Durable jobs: commands that outlive this sandbox and this program, and are read by any later one, by their id.
 *
 * Everything about a job is in its directory; docs/jobs.md describes the format. A job starts from the sandbox's
 * directory and environment, and from nothing of a session. Where a job is asked for, its id or its handle does; of a
 * handle only `jobId` is used, so it cannot lead out of {@link Jobs.root}. Unknown ids are JOB_NOT_FOUND.
 */
export interface Jobs {
  /** The directory of all jobs. */
  readonly root: string
  /**
   * Starts a job, and resolves when its command runs and the job can be found. When this program ends meanwhile, in
   * whatever way, there is either such a job, or nothing.
   *
   * Rejects with OptionError, or SandboxError, and then nothing runs and no directory is left: JOB_ALREADY_EXISTS,
   * CWD_NOT_FOUND, LIMIT_UNSUPPORTED, STATE_DIR_UNAVAILABLE, SPAWN_FAILED.
   */
  start(options: JobStartOptions): Promise<JobHandle>
  status(job: JobHandle | string): Promise<JobStatus>
  /** Reads what is there from `cursor` on, and does not wait. Behind the end there is nothing. */
  read<E extends Encoding = 'utf8'>(
    job: JobHandle | string,
    cursor?: number,
    options?: JobReadOptions<E>,
  ): Promise<JobRead<E>>
  /** Reads what is there and what comes, until the job has ended and all is read. No piece is empty. */
  follow<E extends Encoding = 'utf8'>(
    job: JobHandle | string,
    cursor?: number,
    options?: JobFollowOptions<E>,
  ): AsyncIterableIterator<JobRead<E>, undefined>
  /** Waits until the job has ended. Rejects with an {@link AbortError} when the signal is aborted. */
  wait(job: JobHandle | string, options?: JobWaitOptions): Promise<JobStatus>
  /**
   * Ends everything of a job, also what has left its session or its group: SIGTERM, and SIGKILL after `graceMs`
   * (default: the sandbox's `forceKillAfterDelay` at the start of the job). Resolves when nothing is left, also when
   * nothing was.
   */
  cancel(job: JobHandle | string, options?: JobCancelOptions): Promise<void>
  /** The handle of a job, or null when there is none, or its meta.json is damaged. */
  attach(id: string): Promise<JobHandle | null>
  /** The jobs, or those that all of the filter is true of, in the order of their starts. */
  list(filter?: JobFilter): Promise<JobInfo[]>
  /** Removes the directory of a job that is over. Rejects with JOB_RUNNING when something of it still runs. */
  remove(job: JobHandle | string): Promise<void>
  /** Removes the jobs that are over, and gives their ids. A job of which something still runs stays. */
  prune(options?: JobPruneOptions): Promise<string[]>
}

/** What a remote sandbox has to offer for jobs: the shape of the Daytona SDK's `sandbox.process`. */
export interface JobsBackend {
  readonly process: {
    /**
     * Runs a command line to its end, on Linux, and gives what it has printed. It may be run by any shell, or be split
     * into words like by one. nacre leaves `cwd` and `env` out.
     */
    executeCommand(
      command: string,
      cwd?: string,
      env?: Record<string, string>,
      timeoutSeconds?: number,
    ): Promise<{ exitCode: number; result: string }>
  }
}

/** Options of {@link createSandboxJobs}. Paths are absolute, and those of the remote machine. */
export interface SandboxJobsOptions {
  /** Directory of the jobs; it is made, with mode 0700, by the first call. Default: '/tmp/sandbox-jobs'. */
  jobsRoot?: string
  /** Where jobs run, and what a relative `cwd` of a job is resolved against. Default: where the backend runs commands. */
  cwd?: string
  /** Changes to the environment in which the backend runs commands. */
  env?: EnvChanges
  /** Milliseconds between SIGTERM and SIGKILL of a cancel or a timeout, 0 to 2147483647. Default: 5000. */
  forceKillAfterDelay?: number
  /** Milliseconds that one call of the backend may take; 1 to 2147483647, in whole seconds, rounded up. Default: 60000. */
  callTimeout?: number
  /**
   * Milliseconds between two looks of `wait` and `follow` at a job from which nothing comes: they begin with 50 and grow
   * to this. 1 to 2147483647. Default: 2000.
   */
  maxPollInterval?: number
}

/**
 * Durable jobs in a remote sandbox that can do nothing but run a command and give back its output.
 *
 * The methods and the directories are those of {@link Sandbox.jobs}, and each side can read the jobs of the other. No
 * connection is held, and nothing is remembered here. Different from local jobs, as docs/jobs.md explains: the command
 * runs in `bash` if there is one and otherwise in `sh`; of the limits only `openFiles` is possible, others reject with
 * LIMIT_UNSUPPORTED; `read` gives at most 4 MiB at a time; a process that leaves its session and empties its environment
 * escapes a cancel. What the backend throws, or a reply that is none, is an ENGINE_ERROR.
 *
 * ```js
 * const jobs = createSandboxJobs(await daytona.create())
 * const { jobId } = await jobs.start({ command: 'make all', timeout: 3_600_000 })
 * for await (const { raw } of jobs.follow(jobId)) process.stdout.write(raw)
 * ```
 *
 * Does no I/O. Throws {@link OptionError}.
 */
export declare function createSandboxJobs(backend: JobsBackend, options?: SandboxJobsOptions): Jobs
