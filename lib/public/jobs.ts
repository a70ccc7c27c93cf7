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

/** The status of a job. */
export interface JobStatus {
  /** 'crashed': it has ended, and its end was not recorded. Its output is kept. */
  state: 'running' | 'exited' | 'crashed'
  /** null while it runs, after a crash, and when a signal ended the command. Never guessed. */
  exitCode: number | null
  /** The signal that ended the command; null when none did, or it runs. */
  signal: SignalName | null
  /**
   * Why it ended: 'exit' by itself, 'signal' by a signal from outside, 'timeout', 'cancelled', 'oom' by its memory limit.
   * After a cancel or a timeout, the code or the signal is the command's own reaction. After a crash: 'killed' when the
   * supervisor was killed, 'reboot' when the machine was restarted. null while it runs, and when it was not recorded.
   */
  reason: 'exit' | 'signal' | 'timeout' | 'cancelled' | 'oom' | 'killed' | 'reboot' | null
  /** Whether processes of the job run. Stays true after 'exited' while processes run that the command has left behind. */
  alive: boolean
  /** When the command ended; null when that is not known. */
  endedAt: Date | null
  /** Milliseconds that it ran, by a monotonic clock; null when that is not known. */
  duration: number | null
  /** The disk was full while it ran, and some output is lost. */
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
  /** A label for display: 1 to 256 characters, no control characters. */
  processName?: string
  /** Milliseconds until everything of the job is killed, 0 to 2147483647; 0 = none. Default: 0. */
  timeout?: number
  /** The same in seconds, greater than 0, at most 2147483; excludes `timeout`. */
  timeoutSeconds?: number
  /** Limits of the job. Default: the sandbox's limits, for each job separately. */
  limits?: Limits
  /** Standard input. Default: none, the command reads end of file. */
  input?: string | Uint8Array
  /** The same; excludes `input`. */
  stdin?: string | Uint8Array
}

/** Options of {@link Jobs.read}. */
export interface JobReadOptions<E extends Encoding = 'utf8'> {
  /** 1 to 67108864. In text, a longer character is returned whole. Default: 1048576. */
  maxBytes?: number
  /**
   * Whether to cut after the last newline. An incomplete line is held back until the job has ended, or it is as long as
   * `maxBytes`. Default: false.
   */
  lines?: boolean
  /** Default: 'utf8'. */
  encoding?: E
}

/** Options of {@link Jobs.follow}. */
export interface JobFollowOptions<E extends Encoding = 'utf8'> extends JobReadOptions<E> {
  /** Aborting makes the iterator reject with an {@link AbortError}; the job continues. */
  signal?: AbortSignal
}

/** Options of {@link Jobs.wait}. */
export interface JobWaitOptions {
  /** Aborting rejects the wait with an {@link AbortError}; the job continues. */
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
  /** Where to continue: an offset in bytes in the output, whatever the encoding. */
  cursor: number
  /** Number of output bytes in `raw`. */
  bytesFetched: number
  /** Taken before the output was read: when the job has ended and nothing was fetched, there is nothing more. */
  status: JobStatus
}

/**
 * Durable jobs: commands that outlive this sandbox and this program, and are read by any later one, by their id.
 *
 * Everything about a job is in its directory; docs/jobs.md describes the format. A job starts from the sandbox's
 * directory and environment, not from a session. Methods take its id or its handle; only `jobId` of a handle is used, so
 * a handle cannot lead out of {@link Jobs.root}. Unknown ids are JOB_NOT_FOUND.
 */
export interface Jobs {
  /** The directory of all jobs. */
  readonly root: string
  /**
   * Starts a job, and resolves when its command runs and the job can be found. When this program ends meanwhile, in
   * whatever way, there is either such a job or nothing.
   *
   * Rejects with OptionError, or SandboxError, and then nothing runs and no directory is left: JOB_ALREADY_EXISTS,
   * CWD_NOT_FOUND, LIMIT_UNSUPPORTED, STATE_DIR_UNAVAILABLE, SPAWN_FAILED.
   */
  start(options: JobStartOptions): Promise<JobHandle>
  status(job: JobHandle | string): Promise<JobStatus>
  /** Reads the output from `cursor` on, without waiting. Beyond the end, the result is empty. */
  read<E extends Encoding = 'utf8'>(
    job: JobHandle | string,
    cursor?: number,
    options?: JobReadOptions<E>,
  ): Promise<JobRead<E>>
  /** Reads the output so far and new output, until the job has ended. No piece is empty. */
  follow<E extends Encoding = 'utf8'>(
    job: JobHandle | string,
    cursor?: number,
    options?: JobFollowOptions<E>,
  ): AsyncIterableIterator<JobRead<E>, undefined>
  /** Waits until the job has ended. Rejects with an {@link AbortError} when the signal is aborted. */
  wait(job: JobHandle | string, options?: JobWaitOptions): Promise<JobStatus>
  /**
   * Kills everything of a job, including processes that have left its session or group: SIGTERM, then SIGKILL after
   * `forceKillAfterDelay` (default: the sandbox's at the start of the job). Resolves when nothing is left, or was.
   */
  cancel(job: JobHandle | string, options?: JobCancelOptions): Promise<void>
  /** The handle of a job, or null when there is none, or its meta.json is damaged. */
  attach(id: string): Promise<JobHandle | null>
  /** The jobs, or those that all of the filter is true of, in the order of their starts. */
  list(filter?: JobFilter): Promise<JobInfo[]>
  /** Removes the directory of a job that has ended. Rejects with JOB_RUNNING while processes of it run. */
  remove(job: JobHandle | string): Promise<void>
  /** Removes the jobs that are over, and gives their ids. A job of which something still runs stays. */
  prune(options?: JobPruneOptions): Promise<string[]>
}

/** What a remote sandbox must offer for jobs: the shape of the Daytona SDK's `sandbox.process`. */
export interface JobsBackend {
  readonly process: {
    /**
     * Runs a command line to its end, on Linux, and resolves with its output. Any shell may run it, or a program that splits
     * words as a shell does. nacre passes neither `cwd` nor `env`.
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
   * The longest time in ms between two polls of `wait` and `follow`, which start at 50 ms and slow down while a job prints
   * nothing. 1 to 2147483647. Default: 2000.
   */
  maxPollInterval?: number
}

/**
 * Durable jobs in a remote sandbox that can only run a command and return its output.
 *
 * The methods and the directories are those of {@link Sandbox.jobs}, and each side can read the jobs of the other. No
 * connection is held and no state is kept. Differences from local jobs, which docs/jobs.md explains: the command
 * runs in `bash` if there is one and otherwise in `sh`; of the limits only `openFiles` is possible, others reject with
 * LIMIT_UNSUPPORTED; `read` gives at most 4 MiB at a time; a process that leaves its session and empties its environment
 * escapes a cancel. An exception of the backend, or a malformed reply, is an ENGINE_ERROR.
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
