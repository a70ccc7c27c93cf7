/// <reference types="node" />

/**
 * nacre runs shell commands in persistent bash sessions, on Linux, from Node.js >= 20 and Bun >= 1.3.
 *
 * All times are in milliseconds and all sizes in bytes. Options that are `undefined` count as not given. An unknown
 * option name or a value out of range is an {@link OptionError} (a TypeError) before anything runs: methods that
 * return a promise reject with it, the constructor throws it.
 *
 * @packageDocumentation
 */

/**
 * Shell text (`string`), which bash parses, or an argument list (`string[]`), which no shell ever parses: the first
 * item is the program (looked up on the session's PATH), the others are its arguments as they are.
 *
 * Refused with INVALID_COMMAND: blank text, an empty list, a list whose program is '', anything with a NUL.
 */
export type Command = string | readonly string[]

/** A signal by its name ('SIGTERM') or its number (1 to 64). 0 is refused. */
export type Signal = NodeJS.Signals | number

/** Changes to an environment: a string sets (anything but NUL), `undefined` unsets. Names: `[A-Za-z_][A-Za-z0-9_]*`. */
export type EnvChanges = Record<string, string | undefined>

/** How output is handed out: as text (invalid bytes become U+FFFD) or as the bytes themselves. */
export type Encoding = 'utf8' | 'buffer'

/** The type of output for an encoding. At run time bytes are a Buffer, which is a Uint8Array. */
export type Output<E extends Encoding> = E extends 'buffer' ? Uint8Array : string

/** What a command can read from its standard input. Text is encoded as UTF-8. */
export type Input =
  | string
  | Uint8Array
  | AsyncIterable<string | Uint8Array>
  | ReadableStream<string | Uint8Array>

/** Receives what the engine has to say about itself. `console` fits. */
export interface Logger {
  debug(message: string): void
  info(message: string): void
  warn(message: string): void
  error(message: string): void
}

/** Options of {@link Sandbox}. */
export interface SandboxOptions {
  /**
   * Directory in which sessions start. Default: `process.cwd()` at construction. A relative path is resolved against
   * that. When it does not exist, the first call rejects with CWD_NOT_FOUND.
   */
  cwd?: string | URL
  /** Environment, merged over that of this process (see `extendEnv`). `undefined` removes a variable. */
  env?: EnvChanges
  /**
   * Whether `env` extends the environment of this process as it is at construction. Default: true. With false there
   * is nothing but `env`, and defaults for PATH, HOME and LANG where `env` does not name them.
   */
  extendEnv?: boolean
  /** The shell: bash 4.4 or newer. Default: the bash found on PATH of the environment above. */
  shell?: string
  /** Default for {@link ExecOptions.timeout}: 0 to 2147483647 ms, 0 = none. Default: 0. */
  timeout?: number
  /** Default for {@link ExecOptions.maxBuffer}: bytes kept per stream and command. Default: 67108864 (64 MiB). */
  maxBuffer?: number
  /** Default for {@link ExecOptions.killSignal}. Default: 'SIGTERM'. */
  killSignal?: Signal
  /** Default for {@link ExecOptions.forceKillAfterDelay}: 0 to 2147483647 ms. Default: 5000. */
  forceKillAfterDelay?: number
  /** Whether `exit 3` ends the command and not the session. Default: true. */
  surviveExit?: boolean
  /** Directory for the engine's own files, created with mode 0700. Default: `<os.tmpdir()>/nacre-<uid>`. */
  stateDir?: string
  /** Where the engine reports about itself. Default: nowhere. */
  logger?: Logger
}

/** Options of {@link Session.exec}. */
export interface SessionExecOptions<E extends Encoding = 'utf8'> {
  /**
   * Directory for this command only; the session's own is restored afterwards. A relative path is resolved against
   * the session's. When it does not exist, exec rejects with CWD_NOT_FOUND and nothing runs.
   */
  cwd?: string | URL
  /** Environment changes for this command only; restored exactly afterwards. */
  env?: EnvChanges
  /**
   * Milliseconds the command may run, 0 to 2147483647; 0 = no limit. A fraction is rounded up. At the end the command
   * and all it started in the foreground is killed and exec rejects with COMMAND_TIMEOUT. Default: the sandbox's.
   */
  timeout?: number
  /**
   * Cancels the command: nothing runs when it is aborted already or the command is still waiting for its turn,
   * otherwise the command is killed. exec then rejects with an {@link AbortError}. No effect after the end.
   */
  signal?: AbortSignal
  /** The first signal that a timeout or an abort sends. Default: the sandbox's. */
  killSignal?: Signal
  /** Milliseconds between that signal and SIGKILL, 0 to 2147483647. Default: the sandbox's. */
  forceKillAfterDelay?: number
  /**
   * Standard input. Default: end of file at once. Items of an iterable are written as the command takes them; when
   * the command ends first the iterable is closed. When the iterable throws, the command is killed and exec rejects
   * with that error.
   */
  input?: Input
  /** 'utf8' gives strings, 'buffer' gives bytes in stdout, stderr and all. Default: 'utf8'. */
  encoding?: E
  /** Whether to remove one final `\n` or `\r\n` from stdout, stderr and all. Default: false. */
  stripFinalNewline?: boolean
  /**
   * Bytes kept per stream, 0 to Number.MAX_SAFE_INTEGER. Beyond it the head and the tail are kept and the command
   * runs on; `truncated` says how much is missing. Default: the sandbox's.
   */
  maxBuffer?: number
  /** Whether an unsuccessful command rejects, with COMMAND_FAILED. Default: false. */
  check?: boolean
  /**
   * Called with each piece of output as text while the command runs, in order of arrival; characters are never split.
   * The command waits when this is slow. If this or any of the next two callbacks throws, the command is killed when
   * it still runs and exec rejects with what was thrown. Promises returned by callbacks are not awaited.
   */
  onOutput?: (stream: 'stdout' | 'stderr', data: string) => void
  /** Called when the command starts to run, with the pid of the session's shell. */
  onStart?: (start: { command: string; pid: number; sessionId: string }) => void
  /** Called with the result just before exec resolves. */
  onComplete?: (result: ExecResult<E>) => void
  /** Called with the error just before exec rejects, except for an {@link OptionError}. What it throws is logged. */
  onError?: (error: unknown) => void
}

/** Options of {@link Sandbox.exec}. */
export interface ExecOptions<E extends Encoding = 'utf8'> extends SessionExecOptions<E> {
  /** The session to run in. Default: 'default', which exists by itself. Unknown: SESSION_NOT_FOUND. */
  sessionId?: string
}

/** What became of a command. */
export interface ExecResult<E extends Encoding = 'utf8'> {
  /** The command ended by itself with code 0. */
  success: boolean
  /** null when the command did not get to an exit code. */
  exitCode: number | null
  /** The signal that ended the command, if one did. Real-time signals are called 'SIGRTMIN' and 'SIGRTMIN+1' to '+30'. */
  signal: NodeJS.Signals | null
  stdout: Output<E>
  stderr: Output<E>
  /** stdout and stderr in order of arrival. Put together at the first read. */
  all: Output<E>
  /** The command; an argument list is shown quoted for a shell. */
  command: string
  sessionId: string
  /** The session's directory after the command. */
  cwd: string
  /** Milliseconds that the command ran, by a monotonic clock. */
  duration: number
  /** When it started, as ISO 8601. */
  timestamp: string
  timedOut: boolean
  isCanceled: boolean
  /** Bytes that are missing in the middle of each stream, because of `maxBuffer`; null when nothing is. */
  truncated: null | { stdout: number; stderr: number }
  /** The shell had to be brought back (after `exec`, `kill -9 $$`), with its state after the last finished command. */
  sessionRestarted: boolean
}

/** Options of {@link Sandbox.createSession}. */
export interface SessionOptions {
  /** 1 to 128 characters of `A-Z a-z 0-9 . _ -`, not '.' or '..'. Default: a random UUID. */
  id?: string
  /** Directory in which the session starts; a relative path is resolved against the sandbox's. Default: the sandbox's. */
  cwd?: string | URL
  /** Environment changes over the sandbox's. */
  env?: EnvChanges
  /** Whether `exit 3` ends the command and not the session. Default: the sandbox's. */
  surviveExit?: boolean
}

/** What this machine offers and which mechanisms the engine therefore uses. */
export interface Capabilities {
  /** Whether process trees are held in cgroups, or followed by other means. */
  cgroup: 'v2' | 'none'
  /** Whether the kernel can kill a whole cgroup at once (cgroup.kill). */
  cgroupKill: boolean
  /** Controllers that can be used: 'memory', 'pids', 'cpu'. */
  controllers: string[]
  /** Whether processes can be held by file descriptor instead of by number. */
  pidfd: boolean
  /** Whether output can be opened through /proc/<pid>/fd; named pipes are used otherwise. */
  procFd: boolean
  /** The shell that will be used, null when none was found. */
  shell: string | null
  /** Its version, like '5.2.15'. */
  shellVersion: string | null
  /** Sentences about what is missing and what is used instead. */
  notes: string[]
}

/** A persistent bash session. Its directory, variables, functions, options and traps stay from command to command. */
export interface Session {
  readonly id: string
  /** Runs a command in this session. See {@link Sandbox.exec}. */
  exec<E extends Encoding = 'utf8'>(command: Command, options?: SessionExecOptions<E>): Promise<ExecResult<E>>
  /** Sets and unsets exported variables of this session. See {@link Sandbox.setEnvVars}. */
  setEnvVars(vars: EnvChanges): Promise<void>
  /** Deletes this session; nothing happens when it is gone already. */
  [Symbol.asyncDispose](): Promise<void>
}

/**
 * A set of bash sessions and everything they start, which end together.
 *
 * A pending call keeps the event loop alive, an idle sandbox does not. When this process ends, in whatever way,
 * everything that the sandbox started is killed.
 */
export class Sandbox {
  /** Does no I/O: everything is started by the first call. Throws {@link OptionError}. */
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
  exec<E extends Encoding = 'utf8'>(command: Command, options?: ExecOptions<E>): Promise<ExecResult<E>>

  /**
   * Sets and unsets exported variables of a session (default: 'default'), after the commands already called.
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

  /** The session of that id, or null. */
  getSession(id: string): Promise<Session | null>

  /** All sessions, 'default' included. */
  listSessions(): Promise<Session[]>

  /**
   * Kills everything that runs in a session and forgets it; resolves when all of it is gone.
   *
   * Rejects with SESSION_NOT_FOUND, but not for 'default', which comes back, new, with the next command.
   */
  deleteSession(id: string): Promise<void>

  /** Looks at the machine; starts nothing. Throws SANDBOX_DESTROYED. */
  capabilities(): Capabilities

  /**
   * Kills everything that the sandbox started and resolves when nothing is left. Idempotent. Pending and later calls
   * reject with SANDBOX_DESTROYED.
   */
  destroy(): Promise<void>

  /** The same as {@link Sandbox.destroy}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}

/** Codes of {@link SandboxError}. */
export type SandboxErrorCode =
  | 'COMMAND_FAILED'
  | 'COMMAND_TIMEOUT'
  | 'CWD_NOT_FOUND'
  | 'ENGINE_ERROR'
  | 'INVALID_ENV_NAME'
  | 'SANDBOX_DESTROYED'
  | 'SESSION_ALREADY_EXISTS'
  | 'SESSION_DESTROYED'
  | 'SESSION_NOT_FOUND'
  | 'SESSION_TERMINATED'
  | 'SPAWN_FAILED'
  | 'STATE_DIR_UNAVAILABLE'

/** Codes of {@link OptionError}. */
export type OptionErrorCode = 'INVALID_COMMAND' | 'INVALID_ENV_NAME' | 'INVALID_ID' | 'INVALID_OPTION'

/**
 * Something went wrong at run time; `code` says what. INVALID_ENV_NAME is here for a variable that the session's shell
 * has made read-only; for a name that is none it is an {@link OptionError}.
 */
export class SandboxError extends Error {
  constructor(
    code: SandboxErrorCode,
    message: string,
    options?: { cause?: unknown; result?: ExecResult<Encoding> },
  )
  readonly code: SandboxErrorCode
  /** Of a failed command: the result so far. */
  readonly result?: ExecResult<Encoding>
}

/** A bad argument: an unknown option, a value out of range, a malformed name. The message names it and its bounds. */
export class OptionError extends TypeError {
  constructor(code: OptionErrorCode, message: string, options?: { cause?: unknown })
  readonly code: OptionErrorCode
}

/** The rejection after an abort; `cause` is the reason of the AbortSignal. */
export interface AbortError extends Error {
  name: 'AbortError'
  code: 'ABORT_ERR'
  /** The result so far, when the command had started. */
  result?: ExecResult<Encoding>
}
