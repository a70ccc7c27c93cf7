/** Sandboxes: sets of sessions and everything that they start. */

import type { Command, Encoding, EnvChanges, Logger, MergeConflict, Signal } from '../base/types.js'
import { either, mapped, object, text } from '../schema/constructors.js'
import { env } from '../schema/env.js'
import { table } from '../schema/kind.js'
import { identifier } from '../schema/names.js'
import { bytes, count, milliseconds } from '../schema/numbers.js'
import { directory, directoryText, filePath } from '../schema/paths.js'
import { boolean, list, orNull, reply, text as textField, wordOf } from '../schema/reply.js'
import { killSignal } from '../schema/signals.js'
import { flag, logger } from '../schema/values.js'
import { type Budget, budget } from './budget.js'
import type { Checkpoint, CheckpointOptions, ForkOptions, Rollback, Undo } from './checkpoint.js'
import type { ShellTag } from './command.js'
import type { EventOptions, SandboxEvent } from './events.js'
import type { ExecOptions, ExecStream } from './exec.js'
import type { Files } from './files.js'
import { type HostCommand, hostCommands } from './host-commands.js'
import { type Isolation, type IsolationCapabilities, isolation, isolationCapabilities } from './isolation.js'
import type { Jobs, RemoteJobs } from './jobs.js'
import { type Limits, limits } from './limits.js'
import type { LogEvent, LogOptions, LogStreamOptions, ProcessLogs } from './logs.js'
import type { MergeOptions } from './merge.js'
import type { Forwarding, OpenPort, SandboxForwardOptions } from './ports.js'
import type { KillOptions, Process, ProcessFilter, ProcessOptions } from './process.js'
import type { Answer, Question } from './questions.js'
import type { ExecResult } from './result.js'
import type { Service, ServiceOptions } from './service.js'
import type { AnySession, Session, SessionOptions } from './session.js'
import type { SandboxStats } from './stats.js'
import { type ArchiveOptions, archiveOptions, type Suspended, type SuspendOptions } from './suspend.js'
import {
  type Workspace,
  type WorkspaceCapabilities,
  type WorkspaceOptions,
  workspace,
  workspaceCapabilities,
} from './workspace.js'

/** Options of {@link Sandbox}. */
export interface SandboxOptions {
  /**
   * Directory in which sessions start. A relative path starts at the default. If the directory does not exist, the
   * first call rejects with CWD_NOT_FOUND. Default: `process.cwd()` at construction.
   */
  cwd?: string | URL
  /** Variables, merged over the environment of this process (see `extendEnv`). `undefined` removes a variable. */
  env?: EnvChanges
  /**
   * Whether `env` extends the environment that this process has at construction. With false, the environment is only
   * `env`, with defaults for PATH, HOME and LANG. Default: true.
   */
  extendEnv?: boolean
  /** The shell: bash 4.4 or newer. Default: the bash found on the PATH of the resulting environment. */
  shell?: string
  /**
   * Default for {@link ExecOptions.timeout}, the time limit of each command: 0 to 2147483647 ms, 0 = none. Default: 0.
   */
  timeout?: number
  /**
   * Default for {@link ExecOptions.maxBuffer}: maximum bytes kept per stream and command. Default: 67108864 (64 MiB)
   * for exec and 8388608 (8 MiB) for execStream, whose reader receives all output. Over HTTP, the result of exec keeps at
   * most 16777216 (16 MiB), and that of execStream 1 MiB, unless the call sets its own `maxBuffer`.
   */
  maxBuffer?: number
  /**
   * The user to run as: a name from the user database, or numbers. The user also determines the groups, and HOME, USER,
   * LOGNAME and SHELL unless `env` sets them. Set-user-ID programs gain no rights (no_new_privs). If this process is
   * not root or the user is unknown, the first call rejects with SPAWN_FAILED. Default: the user of this process.
   */
  user?: string | { uid: number; gid: number }
  /**
   * Limits of everything in the sandbox together; `openFiles` applies to each process. If this machine cannot enforce a
   * limit, the first call rejects with LIMIT_UNSUPPORTED. Default: no limits.
   */
  limits?: Limits
  /**
   * What all sessions may use in all. When they have used that, their commands and processes are killed, and later ones reject
   * with BUDGET_EXCEEDED; files can be read. Durable jobs do not count; a fork may use as much again. Default: no limit.
   */
  budget?: Budget
  /**
   * What programs may read, write, reach and see. Paths in rules are resolved at construction. If this machine cannot
   * enforce a rule, the first call rejects with ISOLATION_UNSUPPORTED. Default: no restrictions.
   */
  isolation?: Isolation
  /**
   * A file with rules like those of `isolation` as JSON, for this and other programs, as `nacre learn` prints them. Lists of `isolation`
   * add to those of the file, and its other members take their place. Programs cannot write the file. Values of secrets
   * do not belong in it. A relative path starts at `cwd`. Default: none.
   */
  isolationFile?: string
  /**
   * Whether programs write to the real files ('direct'), or to a private layer above the directory: then
   * {@link Sandbox.workspace} shows what they changed. Holds for everything in the sandbox but durable jobs. If this machine
   * or the directory does not allow it, the first call rejects with WORKSPACE_UNSUPPORTED. Default: 'direct'.
   */
  workspace?: 'direct' | 'copy-on-write' | WorkspaceOptions
  /**
   * Functions of this program that shell commands of all sessions call by their names, like other programs: in pipes, from
   * scripts, in background processes, and with `isolation`. They are first in PATH. At most 128 calls run at the same time.
   * Durable jobs, which may outlive this program, do not have them. The file system of `stateDir` (with `user`: of
   * `os.tmpdir()`) must allow programs. See {@link HostCommand}. Default: none.
   */
  commands?: Record<string, HostCommand>
  /**
   * Default for {@link ExecOptions.killSignal}: the first signal sent on a kill, a timeout or an abort. Default:
   * 'SIGTERM'.
   */
  killSignal?: Signal
  /**
   * Default for {@link ExecOptions.forceKillAfterDelay}: milliseconds between `killSignal` and SIGKILL, 0 to
   * 2147483647. Default: 5000.
   */
  forceKillAfterDelay?: number
  /** Whether a session continues after `exit` in a command. Default: true. */
  surviveExit?: boolean
  /**
   * Directory for the engine's own files and, with a preset of `isolation`, the caches of tools, created with mode 0700. Default:
   * `<os.tmpdir()>/nacre-<uid>`. It must belong to this user or to root, be writable only by its owner, and not be a symlink.
   * Otherwise `startProcess` rejects with STATE_DIR_UNAVAILABLE.
   */
  stateDir?: string
  /**
   * A name under which the sandbox keeps its sessions in `stateDir`: their directories, variables, functions, aliases, options and
   * traps, with the values of variables, in files for this user alone. The next sandbox of the name goes on with them, after
   * `destroy`, a crash of this program or a restart of the container, if `stateDir` is still there. A command that a crash
   * interrupts has not changed the state. A copy-on-write workspace without an `id` is kept under the same name. Processes end with this program: the next sandbox lists them with their
   * logs, those that ran with the status 'error', and starts services again whose `restart` is 'on-failure'. Letters, digits, `.`, `_` and `-`,
   * at most 128. The first call rejects with SANDBOX_IN_USE while another sandbox has the name, and with SANDBOX_LOST if a
   * file is damaged, or in another format of another version of nacre. Default: nothing is kept.
   */
  keep?: string
  /**
   * Directory of durable jobs, each in its own subdirectory; see {@link Jobs}. The first job creates it with mode 0700.
   * If it belongs to another user, is writable by others or is a symlink, every call rejects with
   * STATE_DIR_UNAVAILABLE. Default: `<os.tmpdir()>/sandbox-jobs`, where all programs of the same user find the jobs, or
   * `<os.tmpdir()>/sandbox-jobs-<uid>` if another user owns that directory.
   */
  jobsRoot?: string | URL
  /** Receives engine diagnostics. Default: none. */
  logger?: Logger
}

/** Options of {@link Sandbox.resume}: those of a new sandbox, and how it goes on. */
export interface ResumeOptions extends SandboxOptions, ArchiveOptions {}

/** 2^32-1 stands for "no change" in setresuid(2). */
const MAX_ID = 0xffff_fffe

/** A user: a name, or both numeric ids. Whether the user exists is for the engine to find out. */
const user = either(
  mapped(
    text((name) => name !== '' && !/[\0:\n]/.test(name), 'must be the name of a user or { uid, gid }'),
    (name) => ({ name }),
  ),
  (value) => typeof value === 'string',
  object({ uid: count(0, MAX_ID), gid: count(0, MAX_ID) }, ['uid', 'gid']),
  'a name, or { uid, gid }',
)

export const sandboxOptions = table<SandboxOptions>()({
  cwd: directory,
  env,
  extendEnv: { ...flag, default: true },
  shell: filePath,
  timeout: { ...milliseconds, default: 0 },
  maxBuffer: { ...bytes, default: 67_108_864 },
  killSignal: { ...killSignal, default: 'SIGTERM' },
  forceKillAfterDelay: { ...milliseconds, default: 5000 },
  surviveExit: { ...flag, default: true },
  stateDir: directoryText,
  keep: identifier,
  jobsRoot: directory,
  user,
  limits,
  budget,
  isolation,
  isolationFile: filePath,
  workspace: { ...workspace, default: 'direct' },
  commands: hostCommands,
  logger,
})

export const resumeOptions = table<ResumeOptions>()({ ...sandboxOptions, ...archiveOptions })
/** Options of `Sandbox.listKept` and `Sandbox.deleteKept`. */
export interface KeptOptions {
  /** See {@link SandboxOptions.stateDir}, with the same default. */
  stateDir?: string
}

export const keptOptions = table<KeptOptions>()({ stateDir: directoryText })

/** A sandbox that {@link SandboxOptions.keep} has written to the disk. */
export interface KeptSandbox {
  /** Its name. */
  name: string
  /** Whether a sandbox has the name now. */
  inUse: boolean
  /** When it was last changed. */
  usedAt: Date
}

/** The features of this machine, and the mechanisms that the engine uses. */
export interface Capabilities {
  /** Whether the engine keeps process trees in control groups ('v2') or tracks them by other means ('none'). */
  cgroup: 'v2' | 'none'
  /** Whether the kernel can kill a whole control group in one step (cgroup.kill). */
  cgroupKill: boolean
  /** The available controllers among 'memory', 'pids' and 'cpu'. `notes` explains what replaces the others. */
  controllers: string[]
  /** Whether the engine can use pidfds instead of pids. */
  pidfd: boolean
  /** Whether /proc/self/fd can be opened. bash loads the builtin from there; otherwise the engine is `plain`. */
  procFd: boolean
  /** The shell that nacre uses; null if none was found. */
  shell: string | null
  /** Its version, like '5.2.15'. */
  shellVersion: string | null
  /**
   * How commands reach bash. `builtin`: a builtin drives one persistent bash. `plain`: each command runs in a new bash,
   * which restores the state of the previous one. nacre uses `plain` if bash cannot load the builtin (static, another C
   * library, older than 5.0).
   */
  engine: 'builtin' | 'plain'
  /**
   * The state that passes from one command to the next, like 'variables' and 'cwd'; 'jobs' and 'descriptors' only with
   * `builtin`.
   */
  restored: string[]
  /** The mechanisms that enforce `isolation`. */
  isolation: IsolationCapabilities
  /** What copy-on-write workspaces can do, with their layers in `stateDir`. */
  workspace: WorkspaceCapabilities
  /** Sentences about missing features and their replacements. */
  notes: string[]
}

export const capabilities = reply<Capabilities>({
  cgroup: wordOf('v2', 'none'),
  cgroupKill: boolean,
  controllers: list(textField),
  pidfd: boolean,
  procFd: boolean,
  shell: orNull(textField),
  shellVersion: orNull(textField),
  engine: wordOf('builtin', 'plain'),
  restored: list(textField),
  isolation: isolationCapabilities,
  workspace: workspaceCapabilities,
  notes: list(textField),
})

/** What a {@link Sandbox} and a `SandboxClient` have in common. */
export interface AnySandbox<S extends AnySession = AnySession> extends AsyncDisposable {
  /**
   * Runs a command in a session's shell. Resolves when the command has ended, whatever its exit code.
   *
   * Commands of one session run one after the other, in the order of the calls; sessions run in parallel.
   *
   * Rejects with OptionError, AbortError, or SandboxError: CWD_NOT_FOUND, SESSION_NOT_FOUND, SESSION_TERMINATED,
   * COMMAND_TIMEOUT, COMMAND_FAILED (with `check`), SPAWN_FAILED, STATE_DIR_UNAVAILABLE, SANDBOX_DESTROYED,
   * ENGINE_ERROR. If several apply, exec reports the first in this order: an error of the engine, an exception of a
   * callback or the input, the timeout, the abort, the failed command.
   */
  exec<E extends Encoding = 'utf8', L extends boolean = false>(
    command: Command,
    options?: ExecOptions<E, L>,
  ): Promise<ExecResult<E, L>>

  /** Commands as tagged templates that quote their values. See {@link ShellTag}. */
  readonly $: ShellTag<Pick<ExecOptions, 'sessionId'>>

  /**
   * Runs a command like {@link Sandbox.exec}, and returns its output as events while it runs. The command starts, or
   * queues, immediately.
   *
   * ```js
   * for await (const event of sandbox.execStream('npm run build')) {
   *   if (event.type === 'stdout') process.stdout.write(event.data)
   *   if (event.type === 'complete') console.log(event.exitCode)
   * }
   * ```
   *
   * Throws {@link OptionError}. Any other failure is reported by the event `error` and by the rejection of `result`.
   */
  execStream<E extends Encoding = 'utf8', L extends boolean = false>(
    command: Command,
    options?: ExecOptions<E, L>,
  ): ExecStream<E, L>

  /**
   * Starts a background process with the whole state of a session: directory, variables, functions, options. It does
   * not wait for a running command; the process starts from the state after the last finished command. Resolves when
   * the process has a pid.
   *
   * Rejects with OptionError, AbortError, or SandboxError: PROCESS_ALREADY_EXISTS, SESSION_NOT_FOUND, CWD_NOT_FOUND,
   * LIMIT_UNSUPPORTED, SPAWN_FAILED, SANDBOX_DESTROYED, ENGINE_ERROR.
   */
  startProcess(command: Command, options?: ProcessOptions): Promise<Process>

  /**
   * Starts a process and waits until its health check passes. If that fails or takes too long, the process is killed
   * and nothing of it remains.
   *
   * Rejects like startProcess, and with PROCESS_READY_TIMEOUT or PROCESS_EXITED_BEFORE_READY, both with `logTail`.
   */
  startService(command: Command, options: ServiceOptions): Promise<Service>

  /** Lists all processes in start order, including ended processes until they are cleaned up. */
  listProcesses(filter?: ProcessFilter): Promise<Process[]>

  /** Returns the process with this id, or null. */
  getProcess(id: string): Promise<Process | null>

  /** Kills a process. See {@link Process.kill}. Rejects with PROCESS_NOT_FOUND. */
  killProcess(id: string, signal?: Signal, options?: KillOptions): Promise<boolean>

  /** Kills all processes, including those that are starting. Resolves with their number when all have ended. */
  killAllProcesses(): Promise<number>

  /** Forgets ended processes and their logs. Resolves with their number. */
  cleanupCompletedProcesses(): Promise<number>

  /** Returns the output of a process so far. Rejects with PROCESS_NOT_FOUND. */
  getProcessLogs<E extends Encoding = 'utf8'>(id: string, options?: LogOptions<E>): Promise<ProcessLogs<E>>

  /**
   * Streams the output of a process. See {@link Process.output}. With an unknown id, the first `next` rejects with
   * PROCESS_NOT_FOUND.
   */
  streamProcessLogs<E extends Encoding = 'utf8'>(
    id: string,
    options?: LogStreamOptions<E>,
  ): AsyncIterableIterator<LogEvent<E>>

  /**
   * Sets or unsets exported variables of a session (default: 'default'), after all earlier commands.
   *
   * Rejects with INVALID_ENV_NAME (also for a variable that is read-only in the session), INVALID_OPTION (a value that
   * is not a string or contains a NUL) or SESSION_NOT_FOUND.
   */
  setEnvVars(
    vars: EnvChanges,
    options?: {
      /** The session whose variables to set. Default: 'default'. */
      sessionId?: string
    },
  ): Promise<void>

  /**
   * Creates a session, which shares no shell state with other sessions, and starts its shell.
   *
   * Rejects with INVALID_ID, SESSION_ALREADY_EXISTS, CWD_NOT_FOUND, SPAWN_FAILED.
   */
  createSession(options?: SessionOptions): Promise<S>

  /** Returns the session with this id, or null. */
  getSession(id: string): Promise<S | null>

  /** Lists all sessions, including 'default'. */
  listSessions(): Promise<S[]>

  /**
   * Kills everything in a session and deletes the session. Resolves when everything has ended.
   *
   * Rejects with SESSION_NOT_FOUND, except for 'default'. The next command starts a new default session, even while the
   * old one is still ending.
   */
  deleteSession(id: string): Promise<void>

  /** The copy-on-write workspace; see {@link SandboxOptions.workspace}. */
  readonly workspace: Workspace

  /**
   * Keeps the files of the copy-on-write workspace and the state of every shell: its directory, variables, functions,
   * aliases, options and traps. Waits for the running commands of all sessions, and stops background processes for the
   * moment; new commands wait. Do not await it while reading the stream of a command.
   *
   * Rejects with WORKSPACE_NOT_ENABLED without such a workspace, with NO_SPACE, with ROLLED_BACK if a rollback comes first, and
   * with WORKSPACE_BUSY if background processes run that cannot be stopped, because there is no control group, or with
   * `busy: 'reject'`.
   */
  checkpoint(options?: CheckpointOptions): Promise<Checkpoint>

  /** Lists the checkpoints, the oldest first, without automatic ones. A commit ends all of them. Rejects with WORKSPACE_NOT_ENABLED. */
  checkpoints(): Promise<Checkpoint[]>

  /** Deletes a checkpoint. Rejects with CHECKPOINT_NOT_FOUND and WORKSPACE_NOT_ENABLED. */
  deleteCheckpoint(point: Checkpoint | string): Promise<void>

  /**
   * Ends every program of the sandbox, and goes on with the files and the shells of a checkpoint: sessions that were created
   * later end, and deleted ones return. Durable jobs go on. The commands that run or wait reject with ROLLED_BACK; file calls
   * wait. Later checkpoints stay, so a rollback can be taken back by a checkpoint made before it.
   *
   * Rejects with CHECKPOINT_NOT_FOUND, NO_SPACE and WORKSPACE_NOT_ENABLED; for a checkpoint of another version of nacre with
   * WORKSPACE_LOST, and of a sandbox with other isolation with WORKSPACE_UNSUPPORTED. Nothing has happened then.
   */
  rollback(point: Checkpoint | string): Promise<Rollback>

  /**
   * Rolls back to the moment before the last command that has an automatic checkpoint; see {@link WorkspaceOptions.undoSteps}.
   * Everything since then is taken back, also later commands without one. Repeated calls go further back. It does not wait for
   * a running command, but ends it.
   *
   * Rejects with CHECKPOINT_NOT_FOUND if there is none: none has run, all were undone, or a commit has ended them. Otherwise
   * as {@link Sandbox.rollback}.
   */
  undo(): Promise<Undo>

  /**
   * Measures the resources that all open sessions use, whichever caller has opened them, as {@link Session.stats} does for one.
   * Sessions that have ended and durable jobs are not included. Nothing is measured before a call asks.
   */
  stats(): Promise<SandboxStats>

  /**
   * Lists the TCP ports on which programs of all sessions listen, in the order of their numbers. Other ports of the machine
   * are not among them, and neither are those of programs that this process may not look into, like programs of another
   * user.
   *
   * ```js
   * for (const { port, command } of await sandbox.ports()) console.log(port, command)
   * ```
   */
  ports(): Promise<OpenPort[]>

  /**
   * Lists the questions that are open, the oldest first. See {@link NetworkRules.ask}.
   *
   * ```js
   * for (const { id, target } of await sandbox.questions())
   *   await sandbox.answer(id, target === 'registry.npmjs.org:443' ? 'session' : 'deny')
   * ```
   */
  questions(): Promise<Question[]>

  /**
   * Answers a question, for all connections of its session to its target. Resolves with false if it is not open: it was
   * answered, its time is over, or its session has ended. Rejects with INVALID_ID and OptionError.
   */
  answer(id: string, answer: Answer): Promise<boolean>

  /**
   * Iterates over what happens in the sandbox, whichever caller does it: sessions, commands, processes and services begin and
   * end, commands print, programs wait for input, connections are refused or wait for an answer.
   *
   * The sandbox keeps the last 10,000 events, at most 4 MiB. A reader that is slower, or a `since` that is older, gets the
   * event `lost`. The iteration ends with the sandbox. A pending step keeps the event loop alive.
   *
   * ```js not-run="runs until the sandbox is destroyed"
   * for await (const event of sandbox.events()) console.log(event.type, event.time)
   * ```
   *
   * Throws {@link OptionError}; the first step rejects with it for a `since` of another sandbox.
   */
  events(options?: EventOptions): AsyncIterableIterator<SandboxEvent>

  /** File access as commands of the default session have it. See {@link Session.files} for other sessions. */
  readonly files: Files
  /** Durable jobs, which outlive this sandbox and this program. */
  readonly jobs: RemoteJobs

  /**
   * Returns the features of the machine: of the server's for a `SandboxClient`. The first call starts a shell as sessions do,
   * and takes until it is ready, at most one second. Rejects with SANDBOX_DESTROYED.
   */
  capabilities(): Promise<Capabilities>

  /**
   * Kills everything that the sandbox started, except durable jobs. Resolves when all of it has ended. Idempotent.
   * Pending and later calls reject with SANDBOX_DESTROYED.
   *
   * `destroy` of any object of nacre ends what the object has started. `close` ends only the object, and what cannot go on
   * without it. `await using` calls `destroy`, or `close` of an object that has no `destroy`. Only the first of these calls counts.
   */
  destroy(): Promise<void>

  /** The same as {@link Sandbox.destroy}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}

/**
 * A set of bash sessions and everything that they start.
 *
 * A pending call keeps the event loop alive; an idle sandbox does not. When this process ends, for whatever reason,
 * everything that the sandbox started is killed, except durable jobs.
 */
export declare class Sandbox {
  /** Starts nothing: the first call starts the engine. Throws {@link OptionError}. */
  constructor(options?: SandboxOptions)
  /**
   * Makes a sandbox, and starts its default session. Rejects as its first command would, like with CWD_NOT_FOUND,
   * SPAWN_FAILED or ISOLATION_UNSUPPORTED, and with {@link OptionError}.
   */
  static create(options?: SandboxOptions): Promise<Sandbox>
  /**
   * Makes a sandbox that goes on with what {@link Sandbox.suspend} has written to a file, here or on another machine, also of
   * another architecture. Shells have their directories, variables, functions, aliases, options and traps; below another `cwd`, the
   * directories move with it. Variables that a shell had from its environment are those of this sandbox. With files in the archive,
   * `workspace` is 'copy-on-write' by default, and must be a new one.
   *
   * ```js not-run="needs an archive"
   * const { sandbox, missing } = await Sandbox.resume('agent-7.nacre', { cwd: 'project' })
   * ```
   *
   * An archive can have any shell state and any file of the workspace, so its traps and functions run as commands do: resume only
   * what you trust as a script, or with `isolation`. It cannot write outside of the workspace, gives no file a set-user-ID bit, and
   * the rules are those of the new sandbox, never those of the archive.
   *
   * Rejects with ARCHIVE_REJECTED if the archive is damaged, of another version of nacre, too large or not safe, with
   * WORKSPACE_CONFLICT (see `onDifference`), and with ISOLATION_UNSUPPORTED if the sandbox had `isolation` and this one has none.
   * Nothing has been created then. Otherwise as {@link Sandbox.create}.
   */
  static resume(file: string | URL, options?: ResumeOptions): Promise<Resumed>
  /**
   * Makes a sandbox with the changes of several: of the forks of one sandbox, or of a sandbox and its forks. It is a fork of the first,
   * with its sessions, into which the changes of the others are merged in turn, by files and by lines, as git does it, or by the
   * merge drivers of your git configuration, which run in the new sandbox. The real
   * directory stays as it is until its `workspace.commit()`. Waits for each like {@link Sandbox.fork}; the sandboxes go on.
   *
   * ```js not-run="needs a copy-on-write workspace"
   * const { sandbox: merged } = await Sandbox.merge(await sandbox.fork(2))
   * ```
   *
   * Rejects with WORKSPACE_CONFLICT (see `onConflict`), with INVALID_OPTION for sandboxes that do not come from one, and as
   * {@link Sandbox.fork}. There is no new sandbox then.
   */
  static merge(sandboxes: Sandbox[], options?: MergeOptions): Promise<Merged>
  /** Lists the sandboxes that `keep` has written to `stateDir`, by their names. */
  static listKept(options?: KeptOptions): Promise<KeptSandbox[]>
  /**
   * Deletes what `keep` has written to `stateDir` under a name. A copy-on-write workspace of the name stays, for
   * {@link Workspace.delete}.
   *
   * Rejects with SANDBOX_IN_USE while a sandbox has the name, and with FILE_NOT_FOUND if there is nothing.
   */
  static deleteKept(name: string, options?: KeptOptions): Promise<void>
}

export interface Sandbox extends AnySandbox<Session> {
  readonly jobs: Jobs
  /** The name of a fork or a merged sandbox, by which a server shows it; null for others. */
  readonly name: string | null

  /**
   * Makes a sandbox with the same options, files, sessions and checkpoints as this one at one moment. With `count`, 1 to 256,
   * it makes that many, and resolves with a list. All are independent from then on. Waits like `checkpoint`, and copies no files if only idle shells use them.
   * Background processes, services, terminals, jobs, watches and steps for `undo` are not forked. Destroy the forks like any
   * sandbox; their workspaces have no name, and `maxBytes` counts for each of them alone. They outlive this sandbox.
   *
   * Rejects like `checkpoint`, and if a fork cannot be opened; then there is none.
   */
  fork(options?: ForkOptions): Promise<Sandbox>
  fork(count: number, options?: ForkOptions): Promise<Sandbox[]>

  /**
   * Ends the sandbox, and writes it to a file, in the place of an earlier one: all sessions, and what differs from the real
   * directory of a copy-on-write workspace. See {@link Sandbox.resume}. Waits for running commands as `checkpoint` does; later calls
   * reject with SANDBOX_DESTROYED. The file is for this user alone. It has the values of variables that sessions have set, but none
   * that they had from the environment, and no value of `isolation.network.secrets`.
   *
   * Processes, durable jobs, checkpoints and the history of commands are not in it. What `keep` and a named workspace have on the disk
   * stays there.
   *
   * Rejects with WORKSPACE_BUSY, with NO_SPACE, FILE_NOT_FOUND or PERMISSION_DENIED if the file cannot be written, and with
   * ISOLATION_UNSUPPORTED if a session has rules of its own. The sandbox goes on then.
   */
  suspend(file: string | URL, options?: SuspendOptions): Promise<Suspended>

  /**
   * Lets programs of this machine connect to a program of the sandbox: listens on 127.0.0.1 and passes each connection on as
   * {@link Session.connect} does. A program need not listen yet; until then, connections are closed at once.
   *
   * ```js
   * const { url } = await sandbox.forward(3000)
   * ```
   *
   * It ends with its `close`, with the session that `sessionId` names, and with the sandbox. Every user of this machine can
   * connect. Rejects with {@link OptionError}, SESSION_NOT_FOUND, SESSION_TERMINATED once the shell of that session has exited,
   * and the error of the system (EADDRINUSE) if `local` is taken.
   */
  forward(port: number, options?: SandboxForwardOptions): Promise<Forwarding>
}

/** What {@link Sandbox.merge} has made. */
export interface Merged {
  /** The new sandbox. */
  sandbox: Sandbox
  /** What does not go together, in the order of the sandboxes, then of the paths. Empty without `onConflict: 'markers'`. */
  conflicts: MergeConflict[]
}

/** What {@link Sandbox.resume} has opened. */
export interface Resumed {
  sandbox: Sandbox
  /**
   * What the sandbox had and does not have now: as in {@link Suspended}, and programs that its shells had run and that are not
   * here, like `program cargo: /root/.cargo/bin/cargo`.
   */
  missing: string[]
  /** The paths where the real directory is not as it was. Only with `onDifference: 'report'`. */
  differences: string[]
}

type SetEnvVarsOptions = NonNullable<Parameters<Sandbox['setEnvVars']>[1]>

export const setEnvVarsOptions = table<SetEnvVarsOptions>()({
  sessionId: { ...identifier, default: 'default' },
})
