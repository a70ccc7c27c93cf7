/**
 * `nacre/container`: the session class of a sandbox container, to be put in the place of one that drives a shell over
 * FIFOs. docs/migrate.md tells how, what gets better and what differs.
 *
 * All times are in milliseconds. Options that are `undefined` count as not given. An unknown option name or a value out
 * of range is an {@link OptionError}, which is a TypeError, before anything runs.
 *
 * @packageDocumentation
 */

import type { Logger, OptionError, SandboxError } from './index.js'

export { type Logger, OptionError, SandboxError } from './index.js'

/** Options of {@link Session}. */
export interface SessionOptions {
  /** Any text that is not empty. It is shown in errors and never used as a path. */
  id: string
  /**
   * Where the session starts. When it does not exist: `$HOME`, then /root, then /, with a warning to the logger. Default:
   * `process.cwd()`.
   */
  cwd?: string
  /**
   * Environment, merged over that of this process as it is when `initialize` is called; `undefined` and null remove a
   * variable. LANG and LC_ALL are C.UTF-8 where neither says otherwise.
   */
  env?: Record<string, string | null | undefined>
  /** Accepted for containers that pass it on, and ignored. */
  isolation?: boolean
  /** Default for {@link ExecOptions.timeoutMs} of `exec`: 0 to 2147483647 ms, 0 = none. Default: 0. */
  commandTimeoutMs?: number
  /**
   * Whether `exit 3` ends the command and not the session: `exec` then resolves with the code 3. Default: false, `exec`
   * rejects with ShellTerminatedError and the session is over.
   */
  surviveExit?: boolean
  /** Told how commands end, never their text or output. `console` fits. Default: nobody. */
  logger?: Logger
}

/** Options of {@link Session.exec}. */
export interface ExecOptions {
  /** Directory for this command only. When it does not exist the command fails: code 1 and a sentence in stderr. */
  cwd?: string
  /**
   * Variables for this command only, restored exactly afterwards. `undefined` and null are skipped. A value may hold
   * anything but NUL. Names match `^[A-Za-z_][A-Za-z0-9_]*$`.
   */
  env?: Record<string, string | null | undefined>
  /** Milliseconds the command may run, 0 to 2147483647; 0 = no limit. Default: the session's `commandTimeoutMs`. */
  timeoutMs?: number
  /** Decides about the level of what the logger is told: 'user' is info, 'internal' debug. Default: 'user'. */
  origin?: 'user' | 'internal'
}

/** Options of {@link Session.execStream}. Its `timeoutMs` is 0 by default: what runs in the background is often a server. */
export interface StreamOptions extends ExecOptions {
  /** The id for {@link Session.killCommand}: any text that is not empty, and not that of a command that still runs. */
  commandId?: string
}

/** What became of a command. */
export interface RawExecResult {
  /** Without one newline at its end. Of more than 64 MiB, the head and the tail. */
  stdout: string
  stderr: string
  /** 128 and the signal's number for a command that a signal ended. */
  exitCode: number
  command: string
  /** Milliseconds, greater than 0. */
  duration: number
  /** When it started, as ISO 8601. */
  timestamp: string
}

/** What happens to a command in the background: `start`, output, and last exactly one `complete` or `error`. */
export type ExecEvent = {
  /** ISO 8601. */
  timestamp: string
} & (
  | { type: 'start'; command: string; pid?: number }
  /** `data` is never empty and no character is split. */
  | { type: 'stdout' | 'stderr'; data: string }
  | {
      type: 'complete'
      exitCode: number
      result: {
        stdout: ''
        stderr: ''
        exitCode: number
        success: boolean
        command: string
        /** Milliseconds, greater than 0. */
        duration: number
        /** When it started, as ISO 8601. */
        timestamp: string
      }
    }
  | { type: 'error'; error: string }
)

/** One shell, with what runs in its foreground and its background. */
export declare class Session {
  /** Does no I/O. Throws {@link OptionError}. */
  constructor(options: SessionOptions)

  /** For the container: the terminal that it has attached. Not touched here. */
  pty: unknown

  /** Starts the shell. Later calls give the same promise. Rejects with {@link SandboxError}. */
  initialize(): Promise<void>

  /**
   * Runs a command in the session's shell, whose state stays. Commands run one after the other, in the order of the
   * calls. Standard input is at its end.
   *
   * Rejects with {@link OptionError}; with `... is not ready or shell has died` before `initialize` and after the end;
   * `Command timeout after <n>ms`, when nothing of the command is left; ShellTerminatedError when the shell ended;
   * SessionDestroyedError when the session was destroyed meanwhile.
   */
  exec(command: string, options?: ExecOptions): Promise<RawExecResult>

  /**
   * Runs a command in the background: it begins with the state of the session, leaves that alone and does not hold
   * `exec` up. Begins with the first `next`, which rejects as `exec` does when it can not; what happens later is events.
   *
   * Output is handed out without a gap. A reader may be up to 1 GiB behind, which is kept on disk; what is lost beyond
   * that, or to a full disk, ends the stream in an `error`. Leaving the loop early kills the command.
   */
  execStream(command: string, options?: StreamOptions): AsyncGenerator<ExecEvent, void, undefined>

  /** Whether commands can be run. A shell that was killed while nothing ran is noticed by the next command. */
  isReady(): boolean

  wasDestroyed(): boolean

  /** How the shell has ended; null as long as it has not, and when nobody knows. */
  getShellExitCode(): number | null

  /**
   * Kills a command of `execStream` with everything it started: SIGTERM, after 5 s SIGKILL. Resolves when nothing of it
   * is left, or at once with `waitForExit: false`. False when the id is unknown or its command has ended.
   *
   * Its stream ends in `complete` with the command's own code, or 143 where that would be 0: it was no success.
   */
  killCommand(commandId: string, waitForExit?: boolean): Promise<boolean>

  /** The commands of `execStream` that run. */
  getRunningCommandIds(): string[]

  /** Kills everything of the session; resolves when nothing is left. Idempotent. Open streams end in an `error`. */
  destroy(): Promise<void>

  toJSON(): { id: string }
}

/** The constructor of a {@link Session}. */
export type SessionConstructor = typeof Session

/** The two errors that a container checks by instanceof. */
export interface SessionErrors {
  ShellTerminatedError: new (sessionId: string, exitCode: number | null) => Error
  SessionDestroyedError: new (sessionId: string) => Error
}

/** Makes the class, with errors of your own; nacre's in the place of those that are not given. Throws {@link OptionError}. */
export declare function createSessionClass(errors?: Partial<SessionErrors>): SessionConstructor

/** The shell has ended. */
export declare class ShellTerminatedError extends Error {
  constructor(sessionId: string, exitCode: number | null)
  readonly sessionId: string
  readonly exitCode: number | null
}

/** The session was destroyed while a command ran. */
export declare class SessionDestroyedError extends Error {
  constructor(sessionId: string)
  readonly sessionId: string
}
