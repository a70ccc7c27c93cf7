/** Background processes. */

import type { Encoding, EnvChanges, Input, Signal, SignalName } from '../base/types.js'
import { openableInput } from '../schema/command.js'
import { object } from '../schema/constructors.js'
import { env } from '../schema/env.js'
import { table } from '../schema/kind.js'
import { identifier } from '../schema/names.js'
import { bytes, count, milliseconds } from '../schema/numbers.js'
import { directory } from '../schema/paths.js'
import {
  boolean,
  date,
  type Field,
  number,
  optional,
  orNull,
  reply,
  text,
  unlessNull,
} from '../schema/reply.js'
import { abortSignal, killSignal } from '../schema/signals.js'
import { callback, flag, ownFlag, switchable } from '../schema/values.js'
import type { ExitReason, KilledBy, KillReason, ProcessExit, ProcessWaiting } from './exit.js'
import { exitReason, killedBy, killReason, signalName } from './exit.js'
import { type HandBack, type Hold, handBack } from './hold.js'
import { type Limits, limits } from './limits.js'
import type {
  LogEvent,
  LogLines,
  LogLinesOptions,
  LogOptions,
  LogStreamOptions,
  ProcessLogs,
} from './logs.js'
import type { ProcessStats } from './stats.js'
import type {
  LogMatch,
  WaitEnd,
  WaitForLogOptions,
  WaitForOptions,
  WaitForPortOptions,
  WaitOptions,
} from './waits.js'

/** Options of {@link Session.startProcess}. */
export interface SessionProcessOptions {
  /**
   * The id: 1 to 128 characters of `A-Z a-z 0-9 . _ -`, not '.' or '..'. Default: `proc-` and ten random characters. An
   * id in use, even by an ended process that is still listed, rejects with PROCESS_ALREADY_EXISTS.
   */
  processId?: string
  /** Directory of the process. A relative path starts at the session's directory. Default: the session's. */
  cwd?: string | URL
  /** Changes to the environment of the session, for this process. */
  env?: EnvChanges
  /** Milliseconds until the process is killed with the reason 'timeout'; 0 to 2147483647, 0 = never. Default: 0. */
  timeout?: number
  /**
   * Aborting kills the process with the reason 'killed'. Before startProcess resolves, an abort also makes it reject
   * with an {@link AbortError}. If the signal is already aborted, nothing runs.
   */
  signal?: AbortSignal
  /** The first signal sent on a kill, a timeout or an abort. Default: the sandbox's. */
  killSignal?: Signal
  /** Milliseconds between `killSignal` and SIGKILL, 0 to 2147483647. Default: the sandbox's. */
  forceKillAfterDelay?: number
  /**
   * Standard input. Default: end of file. 'pipe' keeps it open for later input.
   *
   * {@link Process.write} sends later input. To send the text "pipe", pass bytes. If an iterable throws, the process is
   * killed and onError is called.
   */
  input?: Input | 'pipe'
  /**
   * Maximum size of the log in bytes, 0 to Number.MAX_SAFE_INTEGER. Beyond it, the oldest output is dropped. Output
   * beyond the newest 512 KiB is on disk, in an unnamed file below `stateDir`. Default: 67108864 (64 MiB).
   */
  logLimit?: number
  /**
   * Whether nacre forgets the process and its log 60 s after the process ends. It forgets them earlier if 1000 such
   * processes have ended since, or 100 with more than 64 MiB of logs. With false, they stay until
   * a clean-up. Default: true.
   *
   * {@link Sandbox.cleanupCompletedProcesses} cleans up.
   */
  autoCleanup?: boolean
  /** Limits of the process and its descendants. Default: only the sandbox's. */
  limits?: Limits
  /**
   * Gives the process a terminal of this size (1 to 65535 each; 80 x 24 with true) as standard input, output and error.
   * All output is 'stdout'. The process has job control. If the session has no TERM, it becomes 'xterm-256color'.
   * `input` is typed into the terminal and defaults to 'pipe'; its end is sent as Ctrl-D. See {@link Process.resize}.
   * Default: no terminal.
   */
  pty?:
    | boolean
    | {
        /** Columns, 1 to 65535. */
        cols: number
        /** Rows, 1 to 65535. */
        rows: number
      }
  /**
   * Gives the process one pipe for both streams. All output is then 'stdout', in the exact order. A terminal always
   * does this. Default: false.
   */
  mergeOutput?: boolean
  /**
   * Opens the channel of messages that Node.js, Bun and Deno know: the program uses `process.send` and
   * `process.on('message')`, this side {@link Process.send} and {@link Process.messages}. Default: false.
   */
  ipc?: boolean
  /**
   * Prints the command, how it ended and its duration to standard error of this program. Default: true if `NACRE_DEBUG`
   * is `1` in the environment of this program.
   */
  verbose?: boolean
  /** Called before startProcess resolves. If it throws, the process is killed and startProcess rejects. */
  onStart?: (process: Process) => void
  /**
   * Called with each piece of output as text, in order of arrival; characters are never split. Output that
   * arrives faster waits in the log, so a slow callback may miss what `logLimit` drops. After a callback for output threw,
   * none of them is called again.
   */
  onOutput?: (stream: 'stdout' | 'stderr', data: string) => void
  /** The same for standard output alone. */
  onStdout?: (data: string) => void
  /** The same for standard error alone. */
  onStderr?: (data: string) => void
  /**
   * The same, line by line, without `\n` or `\r\n`. An unterminated line counts at the end, and before output that was
   * dropped because of `logLimit`.
   */
  onLine?: (line: string, stream: 'stdout' | 'stderr') => void
  /** Called when the process has ended, after the last output. */
  onExit?: (exitCode: number | null, signal: SignalName | null) => void
  /**
   * Called with the error just before startProcess rejects, except for an {@link OptionError}. Later called with
   * exceptions from other callbacks and the input, and when the process is lost. Default: the error is logged.
   */
  onError?: (error: unknown) => void
}

type TerminalSize = Exclude<SessionProcessOptions['pty'], boolean | undefined>

/** The kernel counts rows and columns in 16 bits. */
const MAX_CELLS = 0xffff

/** Of `pty`: both are required. */
export const terminalOptions = table<TerminalSize>()({ cols: count(1, MAX_CELLS), rows: count(1, MAX_CELLS) })

/** The size of a terminal. */
export const terminal = object(terminalOptions, ['cols', 'rows'])

// By tradition a terminal has 80 columns and 24 rows.
export const pty = switchable(terminal, { cols: 80, rows: 24 }, 'true for 80 x 24, or { cols, rows }')

export const sessionProcessOptions = table<SessionProcessOptions>()({
  processId: identifier,
  cwd: directory,
  env,
  timeout: { ...milliseconds, default: 0 },
  signal: abortSignal,
  killSignal,
  forceKillAfterDelay: milliseconds,
  input: openableInput,
  logLimit: { ...bytes, default: 67_108_864 },
  autoCleanup: { ...flag, default: true },
  limits,
  pty,
  mergeOutput: { ...flag, default: false },
  ipc: { ...flag, default: false },
  verbose: ownFlag,
  onStart: callback,
  onOutput: callback,
  onStdout: callback,
  onStderr: callback,
  onLine: callback,
  onExit: callback,
  onError: callback,
})

/** Options of {@link Sandbox.startProcess}. */
export interface ProcessOptions extends SessionProcessOptions {
  /**
   * The session whose state the process starts from. Default: 'default'. An unknown id rejects with SESSION_NOT_FOUND.
   */
  sessionId?: string
}

export const processOptions = table<ProcessOptions>()({
  sessionId: { ...identifier, default: 'default' },
  ...sessionProcessOptions,
})

/**
 * The status of a process: 'starting' (services only), 'running', 'completed' (it exited with code 0), 'failed' (with another
 * code), 'killed' (a signal ended it, or nacre did: `reason` says why), 'error' (it was lost because its supervisor died, or with
 * {@link SandboxOptions.keep} the program before).
 */
export type ProcessStatus = 'starting' | 'running' | 'completed' | 'failed' | 'killed' | 'error'

export const PROCESS_STATUSES = ['starting', 'running', 'completed', 'failed', 'killed', 'error'] as const

export const processStatus: Field<ProcessStatus> = {
  schema: { name: 'ProcessStatus', type: 'string', enum: PROCESS_STATUSES },
}

/** Options of {@link Process.kill}. */
export interface KillOptions extends KillReason {
  /** Milliseconds between the first signal and SIGKILL, 0 to 2147483647. Default: the option of the process. */
  forceKillAfterDelay?: number
}

export const killOptions = table<KillOptions>()({ ...killReason, forceKillAfterDelay: milliseconds })

/** The terminal of a process, as its programs have set it. */
export interface ProcessTerminal {
  /** Columns. */
  cols: number
  rows: number
  /** Whether what is typed is shown. Programs that read a password turn this off. */
  echo: boolean
  /** Whether input is read by lines, with editing, and not by keys. */
  canonical: boolean
}

const processTerminal = reply<ProcessTerminal>({
  cols: number,
  rows: number,
  echo: boolean,
  canonical: boolean,
})

/** A process as plain data. */
export interface ProcessInfo {
  readonly id: string
  /** The pid of the process that runs the command. */
  readonly pid: number
  /** The command. An argument list is quoted as for a shell. */
  readonly command: string
  readonly sessionId: string
  /** The current status. */
  readonly status: ProcessStatus
  readonly startTime: Date
  /** Absent while it runs. */
  readonly endTime?: Date
  /** When the last output arrived; null if there was none. */
  readonly lastOutputAt: Date | null
  /** When {@link Process.write} last wrote input; null if it never did. */
  readonly lastInputAt: Date | null
  /** The owner of the hold on its input ({@link Process.hold}); null if no caller holds it. */
  readonly heldBy: string | null
  /** What the last owner of a hold said when it released it; null if none said anything. */
  readonly handedBack: HandBack | null
  /** The size and the mode of its terminal; null if it has none (`pty`), or has ended. */
  readonly terminal: ProcessTerminal | null
  /** null while the process runs, and if a signal ended it. */
  readonly exitCode: number | null
  readonly signal: SignalName | null
  /** null while the process runs, and if it was lost with its supervisor. */
  readonly reason: ExitReason | null
  /** What has killed it; null while it runs, and if nothing did. */
  readonly killedBy: KilledBy | null
}

export const processInfo = reply<ProcessInfo>({
  id: text,
  pid: number,
  command: text,
  sessionId: text,
  status: processStatus,
  startTime: date,
  exitCode: orNull(number),
  signal: orNull(signalName),
  endTime: optional(date),
  lastOutputAt: unlessNull(date),
  lastInputAt: unlessNull(date),
  heldBy: unlessNull(text),
  handedBack: unlessNull(handBack),
  terminal: unlessNull(processTerminal),
  reason: unlessNull(exitReason),
  killedBy: unlessNull(killedBy),
})

/**
 * A background process. It runs until it ends or is killed, or until its session or sandbox ends.
 *
 * A pending wait keeps the event loop alive; the process itself and its callbacks do not. After nacre has forgotten the
 * process, this object still has its end, but methods that need the log reject with PROCESS_NOT_FOUND.
 */
export interface Process extends ProcessInfo {
  /**
   * Kills the process and its descendants: sends `signal` (default: its `killSignal`), then SIGKILL. Resolves when all
   * have ended: with true, or with false if the process had already ended.
   */
  kill(signal?: Signal, options?: KillOptions): Promise<boolean>
  /** Waits until the process ends. A number is the `timeout`. Rejects with PROCESS_WAIT_TIMEOUT, with `logTail`, or with AbortError. */
  waitForExit(options?: WaitOptions | number): Promise<ProcessExit>
  /** Looks again. Over HTTP, this also brings all properties up to date; in this process they always are. */
  getStatus(): Promise<ProcessStatus>
  /** The output so far. */
  getLogs<E extends Encoding = 'utf8'>(options?: LogOptions<E>): Promise<ProcessLogs<E>>
  /**
   * Returns lines of the output so far, by their numbers: from a line on, the last ones, or those that match a regular
   * expression. A line has its number from when its newline arrives; each stream has its own lines.
   *
   * Rejects with {@link OptionError} for a bad expression, or for one whose search takes more than 30 s.
   */
  getLogLines<E extends Encoding = 'utf8'>(options?: LogLinesOptions<E>): Promise<LogLines<E>>
  /**
   * Iterates over the output so far, new output, and finally the end of the process. Leaving the loop does not affect
   * the process. Any number of readers can read, each at its own pace. Throws {@link OptionError}.
   */
  output<E extends Encoding = 'utf8'>(options?: LogStreamOptions<E>): AsyncIterableIterator<LogEvent<E>>
  /**
   * Waits until a line of the log, past or new, contains the text or matches the expression. An unterminated line, like
   * a prompt, counts after 50 ms without output. The text must not be empty or contain a newline.
   *
   * A line that does not match as it is counts as a terminal shows it, too: without escape sequences like colors and
   * links, and without what `\r` overwrote. `match.input` is that text; `line` stays as it is.
   *
   * The search takes a time proportional to the log, whatever the RegExp and the output are. So a RegExp has at most 1000
   * characters, and one with look-around, a backreference, `\p`, or sets in classes is an {@link OptionError}. It tests
   * characters, as with the flag `u`. A group in a repetition keeps what it matched last.
   *
   * A number instead of the options is the `timeout`. Rejects with PROCESS_READY_TIMEOUT or PROCESS_EXITED_BEFORE_READY, both
   * with `logTail`, or with AbortError.
   */
  waitForLog(pattern: string | RegExp, options?: WaitForLogOptions | number): Promise<LogMatch>
  /**
   * Waits until the process or a descendant listens on the port, and with `mode: 'http'` also responds. It ignores
   * other processes that listen on the port.
   *
   * Rejects as waitForLog does.
   */
  waitForPort(port: number, options?: WaitForPortOptions): Promise<void>
  /**
   * Writes to standard input. Resolves when the pipe has accepted the data, or the process has ended. Needs
   * `input: 'pipe'`.
   *
   * Rejects with INPUT_CLOSED if the process has ended or the input is closed.
   */
  write(data: string | Uint8Array): Promise<void>
  /** Closes standard input. Has no effect if it is already closed. */
  closeInput(): Promise<void>
  /**
   * Sends a message, any value that JSON has, as `JSON.stringify` writes it: at most 16 MiB and 1000 levels. Resolves when the
   * kernel has taken it, so it waits while the program does not read. Needs `ipc: true`.
   *
   * Rejects with {@link OptionError} for another value, MESSAGE_TOO_LARGE, CHANNEL_CLOSED if the process has ended or closed
   * its end, or CHANNEL_FULL if more than 64 MiB of earlier messages wait.
   */
  send(message: unknown): Promise<void>
  /**
   * Iterates over the messages of the process, until it ends or closes its end. A new loop continues where the last one stopped.
   * Loops of one object share the messages, each for one of them; objects of several clients that read at the same time can
   * all get the same one. Messages that nothing reads stay in the kernel; when that has no more room, the program waits. Needs
   * `ipc: true`.
   *
   * Throws INVALID_MESSAGE for a line that is not JSON or has more than 1000 levels, and for the beginning of a message at the
   * end; a new loop continues after it. Throws MESSAGE_TOO_LARGE for one of more than 16 MiB, which closes the channel.
   */
  messages<T = unknown>(options?: MessagesOptions): AsyncIterableIterator<T>
  /**
   * Closes the channel to the process after the messages sent so far; the process then receives 'disconnect'. What it still
   * sends can be read. Needs `ipc: true`.
   */
  disconnect(): Promise<void>
  /**
   * Keeps the input of this process for one caller, like a person who types: until the hold ends, `write`, `closeInput`
   * and `resize` of others reject with HELD. `owner` says who it is, in 1 to 100 characters. Needs `input: 'pipe'`.
   *
   * All can still read its output, look at it, and kill it; a service can be restarted, which ends the hold. Input that
   * waits for the process already is written.
   *
   * Rejects with {@link OptionError}, INPUT_CLOSED if the process has ended, or HELD if it is already held, even
   * by the same owner.
   */
  hold(owner: string): Promise<Hold<Process>>
  /**
   * Sets the size of the terminal (1 to 65535 each) and notifies the process with SIGWINCH. Needs `pty`. Resolves with
   * false if the process has ended.
   *
   * A shell with line editing reads and rewrites the size before each prompt. A resize within these microseconds is
   * lost, as in every terminal.
   */
  resize(cols: number, rows: number): Promise<boolean>
  /**
   * Returns the resource use of the process and its descendants. Rejects with PROCESS_NOT_FOUND if the process has
   * ended.
   */
  stats(): Promise<ProcessStats>
  /**
   * Finds out whether a program of the process waits for input: from its terminal, or from its standard input
   * (`input: 'pipe'`). Resolves after 0.3 s (1.2 s if `sure` is false); with null if none does, or the process has ended.
   *
   * It is known from the kernel: two looks show the same thread in the same system call. So what the process has
   * printed makes no difference. Not seen are programs that read by `io_uring`. An ordinary user can look neither at
   * programs of other users nor at the session's own bash, see `sure`.
   */
  waiting(): Promise<ProcessWaiting | null>
  /**
   * Waits until a program of the process waits for input and for nothing else, as {@link Process.waiting} finds out.
   *
   * Rejects as waitForLog does.
   */
  waitForInput(options?: WaitOptions): Promise<ProcessWaiting>
  /**
   * Waits for the first of several things: the end of the process, and what the options name. Resolves with which of them
   * came first, also if the time is up.
   *
   * Rejects with {@link OptionError} for a bad expression, or with AbortError.
   */
  waitFor(options?: WaitForOptions): Promise<WaitEnd>
  /** The process as plain data. */
  toJSON(): ProcessInfo
  /** Kills the process if it is running. */
  [Symbol.asyncDispose](): Promise<void>
}

/** Options of {@link Process.messages}. */
export interface MessagesOptions {
  /** Aborting ends the loop with an {@link AbortError}; no message is lost. */
  signal?: AbortSignal
}

export const messagesOptions = table<MessagesOptions>()({ signal: abortSignal })

/** Selects processes that match all members. */
export interface ProcessFilter {
  status?: ProcessStatus | readonly ProcessStatus[]
  sessionId?: string
}
