/**
 * `nacre/container`: a session class for sandbox containers, which replaces a class that drives a shell over FIFOs.
 * docs/migrate.md describes the migration, the improvements and the differences.
 *
 * All times are in milliseconds. An option that is `undefined` counts as omitted. An unknown option or a value out of
 * range causes an {@link OptionError}, which is a TypeError, before anything runs.
 *
 * @packageDocumentation
 */

import { oneOf } from '../schema/constructors.js'
import { commandVariables, sessionVariables } from '../schema/env.js'
import { table } from '../schema/kind.js'
import { label } from '../schema/names.js'
import { milliseconds } from '../schema/numbers.js'
import { directoryText } from '../schema/paths.js'
import { flag, ignored, logger } from '../schema/values.js'
import type { Logger, OptionError, SandboxError } from './index.js'

export type { Logger, OptionError, SandboxError } from './index.js'

/** Options of {@link Session}. */
export interface SessionOptions {
  /** The id of the session: any non-empty text. Error messages show it; it is never used as a path. */
  id: string
  /**
   * Directory in which the session starts. If it does not exist, the session starts in `$HOME`, /root or /, and the
   * logger receives a warning. Default: `process.cwd()`.
   */
  cwd?: string
  /**
   * Variables, merged over the environment that this process has when `initialize` is called. `undefined` and null
   * remove a variable. LANG and LC_ALL are C.UTF-8 unless one of the environments sets them.
   */
  env?: Record<string, string | null | undefined>
  /** Ignored. Accepted because existing containers pass it. */
  isolation?: boolean
  /**
   * Default for {@link ExecOptions.timeoutMs} of `exec`, the time limit of each command: 0 to 2147483647 ms, 0 = none.
   * Default: 0.
   */
  commandTimeoutMs?: number
  /**
   * Whether the session continues after `exit 3`, and `exec` resolves with code 3. With false, `exec` rejects with
   * ShellTerminatedError and the session ends. Default: false.
   */
  surviveExit?: boolean
  /**
   * Receives a line for each command that ends, without its text or output. `console` is a valid logger. Default: none.
   */
  logger?: Logger
}

export const containerSessionOptions = table<SessionOptions>()({
  id: label,
  cwd: directoryText,
  env: sessionVariables,
  isolation: ignored,
  commandTimeoutMs: { ...milliseconds, default: 0 },
  surviveExit: { ...flag, default: false },
  logger,
})

/** Options of {@link Session.exec}. */
export interface ExecOptions {
  /**
   * Directory for this command only. If it does not exist, the command fails with code 1 and a message in stderr.
   * Default: the session's.
   */
  cwd?: string
  /**
   * Variables for this command only. The previous values are restored exactly afterwards. `undefined` and null are
   * skipped. A value must not contain NUL. Names match `^[A-Za-z_][A-Za-z0-9_]*$`.
   */
  env?: Record<string, string | null | undefined>
  /**
   * Milliseconds the command may run, 0 to 2147483647; 0 = no limit. Default: the session's `commandTimeoutMs`; 0 for
   * `execStream`.
   */
  timeoutMs?: number
  /** Sets the log level: info for 'user', debug for 'internal'. Default: 'user'. */
  origin?: 'user' | 'internal'
}

export const containerExecOptions = table<ExecOptions>()({
  cwd: directoryText,
  env: commandVariables,
  timeoutMs: milliseconds,
  origin: { ...oneOf(['user', 'internal']), default: 'user' },
})

/**
 * Options of {@link Session.execStream}. `timeoutMs` is 0 by default, because background commands are often servers.
 */
export interface StreamOptions extends ExecOptions {
  /**
   * The id to pass to {@link Session.killCommand}: any non-empty text and not the id of a running command. Default: a
   * random UUID.
   */
  commandId?: string
}

export const containerStreamOptions = table<StreamOptions>()({ ...containerExecOptions, commandId: label })

/** The result of a command. */
export interface RawExecResult {
  /** The output without one final newline. Of more than 64 MiB, only the head and the tail. */
  stdout: string
  stderr: string
  /** The exit code. If a signal ended the command, 128 plus the signal's number. */
  exitCode: number
  command: string
  /** Milliseconds, greater than 0. */
  duration: number
  /** When it started, as ISO 8601. */
  timestamp: string
}

/** The events of a background command: `start`, output, and finally one `complete` or `error`. */
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
   * calls. Standard input is empty.
   *
   * Rejects with {@link OptionError}; with `... is not ready or shell has died` before `initialize` and after the end
   * of the shell; with `Command timeout after <n>ms`, after everything of the command has ended; with
   * ShellTerminatedError if the shell ends; with SessionDestroyedError if the session is destroyed meanwhile.
   */
  exec(command: string, options?: ExecOptions): Promise<RawExecResult>

  /**
   * Runs a command in the background. The command starts with the state of the session, does not change that state, and
   * does not delay `exec`. It starts with the first `next`, which rejects for invalid options, a `commandId` in use,
   * and a session that is not ready. Later failures are `error` events.
   *
   * Output has no gaps. A reader may be up to 1 GiB behind; that output is on disk. If output is lost beyond that, or
   * because the disk is full, the stream ends with an `error`. Leaving the loop early kills the command.
   */
  execStream(command: string, options?: StreamOptions): AsyncGenerator<ExecEvent, void, undefined>

  /** Returns whether commands can run. Only the next command detects a shell that was killed while idle. */
  isReady(): boolean

  wasDestroyed(): boolean

  /** Returns the exit code of the shell; null while it runs, and if the code is unknown. */
  getShellExitCode(): number | null

  /**
   * Kills a command of `execStream` and its descendants: SIGTERM, then SIGKILL after 5 s. Resolves when all have ended,
   * or immediately if `waitForExit` is false. Resolves with false if the id is unknown or its command has ended.
   *
   * The stream ends with `complete` and the command's own exit code, or 143 if that is 0.
   */
  killCommand(commandId: string, waitForExit?: boolean): Promise<boolean>

  /** Returns the ids of the running commands of `execStream`. */
  getRunningCommandIds(): string[]

  /**
   * Kills everything in the session. Resolves when all of it has ended. Idempotent. Open calls reject with
   * SessionDestroyedError, and open streams end with its message as an `error`.
   */
  destroy(): Promise<void>

  /** The same as `destroy`. */
  [Symbol.asyncDispose](): Promise<void>

  toJSON(): { id: string }
}

/** The constructor of a {@link Session}. */
export type SessionConstructor = typeof Session

/** The two error classes that a container checks with instanceof. */
export interface SessionErrors {
  ShellTerminatedError: new (sessionId: string, exitCode: number | null) => Error
  SessionDestroyedError: new (sessionId: string) => Error
}

/** Creates the class with your own error classes. An omitted class defaults to nacre's. Throws {@link OptionError}. */
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
