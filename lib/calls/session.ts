/** Sessions. */

import type { Command, Encoding, EnvChanges, Signal, SignalName } from '../base/types.js'
import { env } from '../schema/env.js'
import { table } from '../schema/kind.js'
import { identifier } from '../schema/names.js'
import { count } from '../schema/numbers.js'
import { directory } from '../schema/paths.js'
import { date, number, only, orNull, reply, text } from '../schema/reply.js'
import { flag } from '../schema/values.js'
import { type Budget, budget } from './budget.js'
import type { ShellTag } from './command.js'
import type { ExecStream, SessionExecOptions } from './exec.js'
import { type KillReason, signalName } from './exit.js'
import type { Files } from './files.js'
import type { Hold } from './hold.js'
import { type Denial, type Isolation, isolation } from './isolation.js'
import type { OpenPort, PortConnection } from './ports.js'
import type { Process, SessionProcessOptions } from './process.js'
import { programName } from './programs.js'
import type { ExecResult } from './result.js'
import type { Service, SessionServiceOptions } from './service.js'
import type { SessionStats } from './stats.js'

/** Options of {@link Sandbox.createSession}. */
export interface SessionOptions {
  /** The id: 1 to 128 characters of `A-Z a-z 0-9 . _ -`, not '.' or '..'. Default: a random UUID. */
  id?: string
  /**
   * Directory in which the session starts. A relative path starts at the sandbox's directory. Default: the sandbox's.
   */
  cwd?: string | URL
  /** Changes to the environment of the sandbox, for this session. */
  env?: EnvChanges
  /** Whether the session continues after `exit` in a command. Default: the sandbox's. */
  surviveExit?: boolean
  /**
   * Isolation rules of this session. They must be at least as strict as the sandbox's; otherwise createSession rejects
   * with OptionError. Default: the sandbox's.
   */
  isolation?: Isolation
  /**
   * What the session may use in all. When it has used that, its commands and processes are killed, and later ones reject with
   * BUDGET_EXCEEDED; its files can be read. It counts on after a rollback, but not in the next sandbox with the same `keep`.
   * Default: no limit but the sandbox's.
   */
  budget?: Budget
}

/** A session in a reply: its id. */
export const sessionById = only('id', text, 'Session')

export const sessionOptions = table<SessionOptions>()({
  id: identifier,
  cwd: directory,
  env,
  surviveExit: flag,
  isolation,
  budget,
})

/** Options of {@link Session.history}. */
export interface HistoryOptions {
  /** Number of commands, 1 to 100. Default: 100. */
  limit?: number
}

export const historyOptions = table<HistoryOptions>()({ limit: { ...count(1, 100), default: 100 } })

/** Options of {@link Session.why}. */
export interface WhyOptions {
  /**
   * The program that wants to connect, as a key of {@link NetworkRules.programs}. Default: a program that has no hosts of its own,
   * as with any other name.
   */
  program?: string
}

export const whyOptions = table<WhyOptions>()({ program: programName })

/** A command that a session has run. */
export interface HistoryEntry {
  /** The first 1000 characters of the command. An argument list is quoted as for a shell. */
  command: string
  timestamp: string
  /** Milliseconds, by a monotonic clock. */
  duration: number
  /** null if a signal ended the command, or it became a process because of `detachAfter`. */
  exitCode: number | null
  signal: SignalName | null
  /** Bytes of output, including those beyond `maxBuffer`. */
  stdoutBytes: number
  stderrBytes: number
}

export const historyEntry = reply<HistoryEntry>(
  {
    command: text,
    timestamp: text,
    duration: number,
    exitCode: orNull(number),
    signal: orNull(signalName),
    stdoutBytes: number,
    stderrBytes: number,
  },
  'HistoryEntry',
)

/** A command of a session that runs, or waits for the commands before it. */
export interface RunningCommand {
  /** Names the command among those of its sandbox. */
  id: string
  /** The first 10,000 bytes of the command. An argument list is quoted as for a shell. */
  command: string
  /** null while it waits. */
  timestamp: string | null
  /** The pid of the shell that runs it; null while it waits. */
  pid: number | null
  /** Bytes of output so far, including those beyond `maxBuffer`. */
  stdoutBytes: number
  stderrBytes: number
  /** When the last output arrived; null if there was none. */
  lastOutputAt: Date | null
  /** The owner of the hold on the session ({@link Session.hold}); null if no caller holds it. */
  heldBy: string | null
}

export const runningCommand = reply<RunningCommand>(
  {
    id: text,
    command: text,
    timestamp: orNull(text),
    pid: orNull(number),
    stdoutBytes: number,
    stderrBytes: number,
    lastOutputAt: orNull(date),
    heldBy: orNull(text),
  },
  'RunningCommand',
)

/**
 * A persistent bash session, of a {@link Sandbox} or a `SandboxClient`. Its directory, variables, functions, options and traps
 * persist between commands.
 */
export interface AnySession {
  readonly id: string
  /** File access as this session's commands have it. Relative paths start at the session's directory. */
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
  /** Starts a service from this session. See {@link Sandbox.startService}. */
  startService(command: Command, options: SessionServiceOptions): Promise<Service>
  /** Sets or unsets exported variables of this session. See {@link Sandbox.setEnvVars}. */
  setEnvVars(vars: EnvChanges): Promise<void>
  /**
   * Returns the last commands of this session, oldest first. nacre keeps 100 for each of the 1000 most recently used
   * sessions, in memory.
   *
   * Rejects with OptionError or SESSION_NOT_FOUND.
   */
  history(options?: HistoryOptions): Promise<HistoryEntry[]>
  /**
   * Returns the running command and those that wait for it, in their order; whichever caller made them. Over HTTP, a
   * command that still waits in its client is not among them.
   *
   * Rejects with SESSION_NOT_FOUND.
   */
  running(): Promise<RunningCommand[]>
  /**
   * Measures the resources that everything in this session uses, nacre's own helpers included. All are 0 before the first
   * use of the default session.
   *
   * Rejects with SESSION_NOT_FOUND.
   */
  stats(): Promise<SessionStats>
  /**
   * Lists what `isolation` has refused in this session, the oldest first, also of background processes: at most the last 1000 of all
   * sessions of the sandbox. A process that asks for the same again and again counts once for each command meanwhile.
   *
   * Rejects with SESSION_NOT_FOUND.
   */
  denials(): Promise<Denial[]>
  /**
   * Returns what the rules of this session refuse of a path, to read and to write, or of a host and port like 'example.com:443'.
   * Nothing if they allow it, whatever the permissions of the file are. A relative path starts at the sandbox's `cwd`. Starts
   * the session's shell.
   *
   * @example
   * for (const { kind, rule } of await session.why('~/.ssh/id_ed25519')) console.log(kind, rule)
   * @example
   * console.log(await session.why('github.com:443', { program: 'git' }))
   *
   * Rejects with {@link OptionError}, SESSION_NOT_FOUND or ISOLATION_UNSUPPORTED.
   */
  why(target: string, options?: WhyOptions): Promise<Denial[]>
  /** Lists the TCP ports on which programs of this session listen. See {@link Sandbox.ports}. */
  ports(): Promise<OpenPort[]>
  /**
   * Kills a running command, or removes a waiting one, by its id from {@link Session.running}: as its own caller could
   * with {@link ExecStream.kill}, whose result it gets. Resolves when it has ended; with false if there is no such command.
   *
   * Rejects with {@link OptionError} or SESSION_NOT_FOUND.
   */
  killCommand(id: string, signal?: Signal, options?: KillReason): Promise<boolean>
  /**
   * Keeps this session for one caller: until the hold ends, commands, `startProcess`, `startService` and `setEnvVars` of
   * others reject with HELD. `owner` says who it is, in 1 to 100 characters.
   *
   * Commands that run or wait already go on; over HTTP, one that still waits in its client rejects with HELD. Files,
   * `history`, `running`, `killCommand` and `delete` stay open to all, and so do the processes of the session: they have
   * holds of their own.
   *
   * Rejects with {@link OptionError}, SESSION_NOT_FOUND, SESSION_TERMINATED once its shell has exited, or HELD if it is
   * already held, even by the same owner.
   */
  hold(owner: string): Promise<Hold<this>>
  /** Kills everything in this session and deletes it. See {@link Sandbox.deleteSession}. */
  delete(): Promise<void>
  /** The same as `delete`. Has no effect if it is already deleted. */
  [Symbol.asyncDispose](): Promise<void>
}

/** A session of a {@link Sandbox} in this process. */
export interface Session extends AnySession {
  /**
   * Connects to a program of this session that listens on a TCP port, also in a network namespace. It is never another
   * program of the machine: nacre looks up which process listens, before and after it connects.
   *
   * The stream can be closed in each direction alone. It ends with the sandbox, at the latest.
   *
   * Rejects with PORT_CLOSED if no program of the session takes the connection, and with {@link OptionError} or
   * SESSION_NOT_FOUND. For a port of this machine that leads to a program, see {@link Sandbox.forward}.
   */
  connect(port: number): Promise<PortConnection>
}
