/** Sessions. */

import type { Command, Encoding, EnvChanges, ShellTag, SignalName } from './command.js'
import type { ExecResult, ExecStream, SessionExecOptions } from './exec.js'
import type { Files } from './files.js'
import type { Isolation } from './isolation.js'
import type { Process, SessionProcessOptions } from './process.js'
import type { Sandbox } from './sandbox.js'

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
  /**
   * Rules of this session, which must be as strict as the sandbox's or stricter; otherwise OptionError. Default: the
   * sandbox's.
   */
  isolation?: Isolation
}

/** Options of {@link Session.history}. */
export interface HistoryOptions {
  /** Number of commands, 1 to 100. Default: 100. */
  limit?: number
}

/** A command that a session has run. */
export interface HistoryEntry {
  /** Its first 1000 characters. An argument list is shown quoted for a shell. */
  command: string
  startedAt: Date
  /** Milliseconds, by a monotonic clock. */
  duration: number
  /** null when the command has no exit code, because a signal ended it. */
  exitCode: number | null
  signal: SignalName | null
  /** Bytes of output, including those beyond `maxBuffer`. */
  stdoutBytes: number
  stderrBytes: number
}

/** A persistent bash session. Its directory, variables, functions, options and traps persist between commands. */
export interface Session {
  readonly id: string
  /** The files that this session's commands see. Relative paths start at its directory. */
  readonly files: Files
  /** Runs a command in this session. See {@link Sandbox.exec}. */
  exec<E extends Encoding = 'utf8', L extends boolean = false>(
    command: Command,
    options?: SessionExecOptions<E, L>,
  ): Promise<ExecResult<E, L>>
  /** Commands as tagged templates that quote their values. See {@link ShellTag}. */
  readonly $: ShellTag
  /** Runs a command in this session, as events. See {@link Sandbox.execStream}. */
  execStream<E extends Encoding = 'utf8', L extends boolean = false>(
    command: Command,
    options?: SessionExecOptions<E, L>,
  ): ExecStream<E, L>
  /** Starts a background process from this session. See {@link Sandbox.startProcess}. */
  startProcess(command: Command, options?: SessionProcessOptions): Promise<Process>
  /** Sets and unsets exported variables of this session. See {@link Sandbox.setEnvVars}. */
  setEnvVars(vars: EnvChanges): Promise<void>
  /**
   * The last commands of this session, the oldest first. Kept in memory: 100 for each of the 1000 sessions used last.
   *
   * Rejects with OptionError, or SESSION_NOT_FOUND.
   */
  history(options?: HistoryOptions): Promise<HistoryEntry[]>
  /** Deletes this session. No effect when it was deleted before. */
  [Symbol.asyncDispose](): Promise<void>
}
