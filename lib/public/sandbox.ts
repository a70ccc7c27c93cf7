/** A set of sessions and everything they start. */

import type { Command, Encoding, EnvChanges, Logger, ShellTag, Signal } from './command.js'
import type { OptionError } from './errors.js'
import type { ExecOptions, ExecResult, ExecStream } from './exec.js'
import type { Files } from './files.js'
import type { Isolation, IsolationCapabilities } from './isolation.js'
import type { Jobs } from './jobs.js'
import type { LogEvent, LogOptions, LogStreamOptions, ProcessLogs } from './logs.js'
import type { KillOptions, Process, ProcessFilter, ProcessOptions } from './process.js'
import type { Service, ServiceOptions } from './service.js'
import type { Session, SessionOptions } from './session.js'

/** Options of {@link Sandbox}. */
export interface SandboxOptions {
  /**
   * Directory in which sessions start. Default: `process.cwd()` at construction. A relative path is resolved against
   * it. When it does not exist, the first call rejects with CWD_NOT_FOUND.
   */
  cwd?: string | URL
  /** Environment, merged over that of this process (see `extendEnv`). `undefined` removes a variable. */
  env?: EnvChanges
  /**
   * Whether `env` extends the environment of this process as it is at construction. Default: true. With false the
   * environment is only `env`, with defaults for PATH, HOME and LANG.
   */
  extendEnv?: boolean
  /** The shell: bash 4.4 or newer. Default: the bash found on PATH of the environment above. */
  shell?: string
  /** Default for {@link ExecOptions.timeout}: 0 to 2147483647 ms, 0 = none. Default: 0. */
  timeout?: number
  /**
   * Default for {@link ExecOptions.maxBuffer}: bytes kept per stream and command. Default: 67108864 (64 MiB) for exec
   * and 8388608 (8 MiB) for execStream, whose reader receives all output; over HTTP at most 1 MiB.
   */
  maxBuffer?: number
  /**
   * The user to run as: a name from the user database, or numbers. Groups are the user's, and so are HOME, USER, LOGNAME
   * and SHELL unless `env` names them. Set-user-ID programs have no effect (no_new_privs). This process must be root;
   * otherwise, or for an unknown user, the first call rejects with SPAWN_FAILED. Default: the user of this process.
   */
  user?: string | { uid: number; gid: number }
  /**
   * Limits of everything in the sandbox together, except that `openFiles` is for each process. When this machine cannot
   * enforce one, the first call rejects with LIMIT_UNSUPPORTED. Default: no limits.
   */
  limits?: Limits
  /**
   * What programs may read, write, reach and see. The paths of its rules are resolved at construction. When this machine
   * cannot enforce a rule, the first call rejects with ISOLATION_UNSUPPORTED. Default: no restrictions.
   */
  isolation?: Isolation
  /** Default for {@link ExecOptions.killSignal}. Default: 'SIGTERM'. */
  killSignal?: Signal
  /** Default for {@link ExecOptions.forceKillAfterDelay}: 0 to 2147483647 ms. Default: 5000. */
  forceKillAfterDelay?: number
  /** Whether `exit 3` ends the command and not the session. Default: true. */
  surviveExit?: boolean
  /**
   * Directory for the engine's own files, created with mode 0700. Default: `<os.tmpdir()>/nacre-<uid>`. It must belong to
   * this user or to root, must be writable by its owner alone, and must not be a symlink: otherwise `startProcess` rejects
   * with STATE_DIR_UNAVAILABLE.
   */
  stateDir?: string
  /**
   * Directory of durable jobs, one directory for each; see {@link Jobs}. Default: `<os.tmpdir()>/sandbox-jobs`, where any
   * program of the same user finds them, or `<os.tmpdir()>/sandbox-jobs-<uid>` when that directory belongs to another
   * user. The first job creates it, with mode 0700. When it belongs to another user, is writable by others or is a symlink,
   * every call rejects with STATE_DIR_UNAVAILABLE.
   */
  jobsRoot?: string | URL
  /** Receives engine diagnostics. Default: none. */
  logger?: Logger
}

/** Limits of a process and its descendants. LIMIT_UNSUPPORTED: this machine cannot enforce one. */
export interface Limits {
  /** Bytes of memory, 1 to Number.MAX_SAFE_INTEGER. Beyond it the process is killed, with the reason 'oom'. */
  memory?: number
  /** Processors, more than 0: 0.5 is half the time of one. */
  cpus?: number
  /** Processes and threads at a time: 1 to 4294967295. */
  pids?: number
  /** File descriptors of each single process: 1 to 4294967295. */
  openFiles?: number
}

/** What this machine offers, and the mechanisms that the engine uses on it. */
export interface Capabilities {
  /** Whether the engine holds process trees in cgroups, or tracks them by other means. */
  cgroup: 'v2' | 'none'
  /** Whether the kernel can kill a whole cgroup in one step (cgroup.kill). */
  cgroupKill: boolean
  /** Available controllers of 'memory', 'pids' and 'cpu'; `notes` has what replaces the others. */
  controllers: string[]
  /** Whether the engine can refer to processes by file descriptor instead of by number. */
  pidfd: boolean
  /** Whether /proc/self/fd can be opened. bash loads the builtin from there; without it, the engine is `plain`. */
  procFd: boolean
  /** The shell that will be used, null when none was found. */
  shell: string | null
  /** Its version, like '5.2.15'. */
  shellVersion: string | null
  /**
   * How commands reach bash. `builtin`: a builtin drives one persistent bash. `plain`, for a bash that cannot load it
   * (static, another C library, older than 5.0): each command gets a bash of its own, which restores the state of the
   * one before.
   */
  engine: 'builtin' | 'plain'
  /** The state that one command leaves to the next, like 'variables' and 'cwd'; 'jobs' and 'descriptors' only with `builtin`. */
  restored: string[]
  /** What enforces the rules of `isolation`. */
  isolation: IsolationCapabilities
  /** Sentences about missing features and their replacements. */
  notes: string[]
}

/**
 * A set of bash sessions and everything they start.
 *
 * A pending call keeps the event loop alive, an idle sandbox does not. When this process ends, in whatever way,
 * everything that the sandbox started is killed, except durable jobs.
 */
export declare class Sandbox {
  /** Starts nothing: the first call starts the engine. Throws {@link OptionError}. */
  constructor(options?: SandboxOptions)

  /**
   * Runs a command in the foreground of a session's shell and resolves when it has ended, whatever its exit code.
   *
   * Commands of one session run one after the other, in the order of the calls; sessions run in parallel.
   *
   * Rejects with OptionError, AbortError, or SandboxError: CWD_NOT_FOUND, SESSION_NOT_FOUND, SESSION_TERMINATED,
   * COMMAND_TIMEOUT, COMMAND_FAILED (with `check`), SPAWN_FAILED, STATE_DIR_UNAVAILABLE, SANDBOX_DESTROYED,
   * ENGINE_ERROR. When several apply, the first of these is reported: an error of the engine, an error thrown by a
   * callback or the input, the timeout, the abort, the failure.
   */
  exec<E extends Encoding = 'utf8', L extends boolean = false>(
    command: Command,
    options?: ExecOptions<E, L>,
  ): Promise<ExecResult<E, L>>

  /** Commands as tagged templates that quote their values. See {@link ShellTag}. */
  readonly $: ShellTag<Pick<ExecOptions, 'sessionId'>>

  /**
   * Runs a command as {@link Sandbox.exec} does, as events while it runs. It starts, or queues, immediately.
   *
   * ```js
   * for await (const event of sandbox.execStream('npm run build')) {
   *   if (event.type === 'stdout') process.stdout.write(event.data)
   *   if (event.type === 'complete') console.log(event.exitCode)
   * }
   * ```
   *
   * Throws {@link OptionError}. Any other failure is the event `error` and the rejection of `result`.
   */
  execStream<E extends Encoding = 'utf8', L extends boolean = false>(
    command: Command,
    options?: ExecOptions<E, L>,
  ): ExecStream<E, L>

  /**
   * Starts a background process with the whole state of a session: directory, variables, functions, options. It does not
   * wait for a running command: the process then starts from the state after the last finished one. Resolves when the
   * process has a pid.
   *
   * Rejects with OptionError, AbortError, or SandboxError: PROCESS_ALREADY_EXISTS, SESSION_NOT_FOUND, CWD_NOT_FOUND,
   * LIMIT_UNSUPPORTED, SPAWN_FAILED, SANDBOX_DESTROYED, ENGINE_ERROR.
   */
  startProcess(command: Command, options?: ProcessOptions): Promise<Process>

  /**
   * Starts a process and waits until it is ready. A process that is not ready in time is killed. After a failure, nothing
   * of it is left.
   *
   * Rejects as startProcess does, and with PROCESS_READY_TIMEOUT or PROCESS_EXITED_BEFORE_READY, both with `logTail`.
   */
  startService(command: Command, options: ServiceOptions): Promise<Service>

  /** All processes in the order of their starts, including ended ones until they are cleaned up. */
  listProcesses(filter?: ProcessFilter): Promise<Process[]>

  /** The process of this id, or null. */
  getProcess(id: string): Promise<Process | null>

  /** See {@link Process.kill}. Rejects with PROCESS_NOT_FOUND. */
  killProcess(id: string, signal?: Signal, options?: KillOptions): Promise<boolean>

  /** Kills all processes, including starting ones. Resolves with their number when all have ended. */
  killAllProcesses(): Promise<number>

  /** Forgets processes that have ended, and their logs; resolves with their number. */
  cleanupCompletedProcesses(): Promise<number>

  /** The output of a process so far. Rejects with PROCESS_NOT_FOUND. */
  getProcessLogs<E extends Encoding = 'utf8'>(id: string, options?: LogOptions<E>): Promise<ProcessLogs<E>>

  /** See {@link Process.output}. With an unknown id, the first `next` rejects with PROCESS_NOT_FOUND. */
  streamProcessLogs<E extends Encoding = 'utf8'>(
    id: string,
    options?: LogStreamOptions<E>,
  ): AsyncIterableIterator<LogEvent<E>, undefined>

  /**
   * Sets and unsets exported variables of a session (default: 'default'), after the commands called before.
   *
   * Rejects with INVALID_ENV_NAME (also for a variable that is read-only in the session), INVALID_OPTION (a value that
   * is not a string, or has a NUL), SESSION_NOT_FOUND.
   */
  setEnvVars(vars: EnvChanges, options?: { sessionId?: string }): Promise<void>

  /**
   * Creates a session, isolated from the others, and starts its shell.
   *
   * Rejects with INVALID_ID, SESSION_ALREADY_EXISTS, CWD_NOT_FOUND, SPAWN_FAILED.
   */
  createSession(options?: SessionOptions): Promise<Session>

  /** The session of this id, or null. */
  getSession(id: string): Promise<Session | null>

  /** All sessions, including 'default'. */
  listSessions(): Promise<Session[]>

  /**
   * Kills everything that runs in a session and deletes it; resolves when all of it has ended.
   *
   * Rejects with SESSION_NOT_FOUND, except for 'default': the next command starts a new one, even while the old one is
   * still ending.
   */
  deleteSession(id: string): Promise<void>

  /** The files that commands of the default session see. See {@link Session.files} for other sessions. */
  readonly files: Files
  /** Durable jobs, which outlive this sandbox and this program. */
  readonly jobs: Jobs

  /** Examines the machine and starts nothing. Throws SANDBOX_DESTROYED. */
  capabilities(): Capabilities

  /**
   * Kills everything that the sandbox started and resolves when nothing is left. Idempotent. Pending and later calls
   * reject with SANDBOX_DESTROYED.
   */
  destroy(): Promise<void>

  /** The same as {@link Sandbox.destroy}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}
