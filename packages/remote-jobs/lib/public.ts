/**
 * Durable jobs in a remote sandbox that can only run a command and return its output.
 *
 * @module packages/remote-jobs
 */
import type { EnvChanges, Jobs, OptionError, Sandbox } from 'nacre'

/** The interface that a remote sandbox must offer for jobs. It matches `sandbox.process` of the Daytona SDK. */
export interface CommandBackend {
  readonly process: {
    /**
     * Runs a command line on Linux and resolves with its output when it has ended. Any shell can run it, or a program
     * that splits words like a shell. nacre passes neither `cwd` nor `env`.
     */
    executeCommand(
      command: string,
      cwd?: string,
      env?: Record<string, string>,
      timeoutSeconds?: number,
    ): Promise<{ exitCode: number; result: string }>
  }
}

/** Options of {@link createRemoteJobs}. Paths are absolute paths on the remote machine. */
export interface RemoteJobsOptions {
  /** Directory of the jobs. The first call creates it with mode 0700. Default: '/tmp/sandbox-jobs'. */
  jobsRoot?: string
  /**
   * Directory in which jobs run; a relative `cwd` of a job starts here. Default: the directory in which the backend
   * runs commands.
   */
  cwd?: string
  /** Changes to the environment of the backend's commands. */
  env?: EnvChanges
  /** Milliseconds between SIGTERM and SIGKILL on a cancel or a timeout, 0 to 2147483647. Default: 5000. */
  forceKillAfterDelay?: number
  /** Time limit of one backend call in milliseconds, 1 to 2147483647, rounded up to whole seconds. Default: 60000. */
  callTimeout?: number
  /**
   * Maximum milliseconds between two polls of `wait` and `follow`, 1 to 2147483647. Polls start at 50 ms and slow down
   * while a job prints nothing. Default: 2000.
   */
  maxPollInterval?: number
}

/**
 * Creates durable jobs in a remote sandbox that can only run a command and return its output.
 *
 * The methods and the job format are those of {@link Sandbox.jobs}, and each can read the jobs of the other. The object
 * holds no connection and no state. docs/jobs.md explains the differences from local jobs: the command runs in `bash`,
 * or in `sh` if bash is missing; limits other than `openFiles` reject with LIMIT_UNSUPPORTED; `read` returns at most 4
 * MiB; a process that leaves its session and empties its environment escapes a cancel. An exception of the backend or a
 * malformed reply rejects with ENGINE_ERROR.
 *
 * ```js
 * const jobs = createRemoteJobs(await daytona.create())
 * const { jobId } = await jobs.start({ command: 'make all', timeout: 3_600_000 })
 * for await (const { raw } of jobs.follow(jobId)) process.stdout.write(raw)
 * ```
 *
 * Does no I/O. Throws {@link OptionError}.
 */
export declare function createRemoteJobs(backend: CommandBackend, options?: RemoteJobsOptions): Jobs
