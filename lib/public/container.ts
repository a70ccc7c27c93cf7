/**
 * `nacre/container`: the session class of a sandbox container, a replacement for one that drives a shell over FIFOs.
 * docs/migrate.md describes the migration, the improvements and the differences.
 *
 * All times are in milliseconds. An option that is `undefined` counts as left out. An unknown option name or a value out
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
   * variable. LANG and LC_ALL are C.UTF-8 unless one of them sets another.
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
  /** Receives how commands end, never their text or output. `console` fits. Default: none. */
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
  /** Sets the log level: 'user' is info, 'internal' debug. Default: 'user'. */
  origin?: 'user' | 'internal'
}

/** Options of {@link Session.execStream}. Its `timeoutMs` is 0 by default: what runs in the background is often a server. */
export interface StreamOptions extends ExecOptions {
  /** The id for {@link Session.killCommand}: any text that is not empty, and not that of a command that still runs. */
  commandId?: string
}

/** The result of a command. */
export interface RawExecResult {
  /** The output without one final newline; of more than 64 MiB, the head and the tail. */
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

/** The events of a background command: `start`, output, and at last exactly one `complete` or `error`. */
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

/** One shell, with its foreground and background commands. */
export declare class Session {
  /** Does no I/O. Throws {@link OptionError}. */
  constructor(options: SessionOptions)

  /** Reserved for the container's own terminal. nacre does not use it. */
  pty: unknown

  /** Starts the shell. Later calls return the same promise. Rejects with {@link SandboxError}. */
  initialize(): Promise<void>

  /**
   * Runs a command in the session's shell, whose state persists. Commands run one after the other, in the order of the
   * calls. Standard input is at end of file.
   *
   * Rejects with {@link OptionError}; with `... is not ready or shell has died` before `initialize` and after the end;
   * `Command timeout after <n>ms`, when nothing of the command is left; ShellTerminatedError when the shell ended;
   * SessionDestroyedError when the session was destroyed meanwhile.
   */
  exec(command: string, options?: ExecOptions): Promise<RawExecResult>

  /**
   * Runs a command in the background: it starts from the state of the session, does not change that state and does not
   * delay `exec`. It starts with the first `next`, which rejects for bad options, a taken `commandId` and a session that is
   * not ready. Any later failure is an `error` event.
   *
   * Output has no gaps. A reader may be up to 1 GiB behind, which is kept on disk. Output that is lost beyond that, or to a
   * full disk, ends the stream with an `error`. Leaving the loop early kills the command.
   */
  execStream(command: string, options?: StreamOptions): AsyncGenerator<ExecEvent, void, undefined>

  /** Whether commands can run. The next command detects a shell that was killed while idle. */
  isReady(): boolean

  wasDestroyed(): boolean

  /** The exit code of the shell; null while it runs, and when it is unknown. */
  getShellExitCode(): number | null

  /**
   * Kills a command of `execStream` and its descendants: SIGTERM, then SIGKILL after 5 s. Resolves when nothing of it is
   * left, or immediately with `waitForExit: false`. False when the id is unknown or its command has ended.
   *
   * Its stream ends with `complete` and the command's own code, or 143 instead of 0.
   */
  killCommand(commandId: string, waitForExit?: boolean): Promise<boolean>

  /** The commands of `execStream` that run. */
  getRunningCommandIds(): string[]

  /** Kills everything of the session; resolves when nothing is left. Idempotent. Open streams end with an `error`. */
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

/** Makes the class with your own error classes; nacre's where one is left out. Throws {@link OptionError}. */
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
