/** Background processes. */

import type { Encoding, EnvChanges, Input, Signal, SignalName } from './command.js'
import type { AbortError, OptionError } from './errors.js'
import type { LogEvent, LogOptions, LogStreamOptions, ProcessLogs } from './logs.js'
import type { Limits, Sandbox } from './sandbox.js'
import type { Session } from './session.js'
import type { LogMatch, WaitForLogOptions, WaitForPortOptions, WaitOptions } from './waits.js'

/** Options of {@link Session.startProcess}. */
export interface SessionProcessOptions {
  /**
   * 1 to 128 characters of `A-Z a-z 0-9 . _ -`, not '.' or '..'. Default: `proc-` and ten random characters. One that is
   * in use, also by a process that has ended and is still known: PROCESS_ALREADY_EXISTS.
   */
  processId?: string
  /** Directory of the process; a relative path is resolved against the session's. Default: the session's. */
  cwd?: string | URL
  /** Environment changes over the session's. */
  env?: EnvChanges
  /** Milliseconds until the process is killed, with the reason 'timeout'; 0 to 2147483647, 0 = none. Default: 0. */
  timeout?: number
  /**
   * Aborting kills the process, with the reason 'killed'. While it is being started it rejects startProcess with an
   * {@link AbortError}; an aborted one does so before anything runs.
   */
  signal?: AbortSignal
  /** The first signal of a kill, a timeout or an abort. Default: the sandbox's. */
  killSignal?: Signal
  /** Milliseconds between that signal and SIGKILL, 0 to 2147483647. Default: the sandbox's. */
  forceKillAfterDelay?: number
  /**
   * Standard input. Default: end of file at once. With 'pipe' it stays open, for {@link Process.write}; the text "pipe"
   * itself can be given as bytes. When an iterable throws, the process is killed and onError is told.
   */
  input?: Input | 'pipe'
  /**
   * Bytes of log kept, 0 to Number.MAX_SAFE_INTEGER; of more, the oldest are dropped. Beyond 768 KiB it is kept on disk, in
   * a file without a name below `stateDir`. Default: 67108864 (64 MiB).
   */
  logLimit?: number
  /**
   * Whether the process is forgotten, with its log, some time after its end: 60 s after it, and before that when 1000
   * such processes have ended since, or 100 whose logs have more than 64 MiB. Default: true. With false it is known until
   * {@link Sandbox.cleanupCompletedProcesses}.
   */
  autoCleanup?: boolean
  /** What it may use. Default: no limits of its own. */
  limits?: Limits
  /**
   * A terminal of this size, 1 to 65535 each, or of 80 x 24 with true, as standard input, output and error, which are one stream then: 'stdout'.
   * The process has job control and the terminal is its own; TERM is 'xterm-256color' where the session has none. `input`
   * is what is typed, by default 'pipe', and its end is a Ctrl-D. See {@link Process.resize}. Default: no terminal.
   */
  pty?: boolean | { cols: number; rows: number }
  /** Called when it runs, before startProcess resolves. When it throws, the process is killed and startProcess rejects. */
  onStart?: (process: Process) => void
  /**
   * Called with each piece of output as text, in order of arrival; characters are never split. What comes faster than
   * this takes it waits in the log, so it may miss what `logLimit` drops. When it throws it is not called again.
   */
  onOutput?: (stream: 'stdout' | 'stderr', data: string) => void
  /** Called when the process has ended, after the last onOutput. */
  onExit?: (exitCode: number | null, signal: SignalName | null) => void
  /**
   * Called with the error just before startProcess rejects, except for an {@link OptionError}, and with what another
   * callback or the input throws later. Without it that is told the logger.
   */
  onError?: (error: unknown) => void
}

/** Options of {@link Sandbox.startProcess}. */
export interface ProcessOptions extends SessionProcessOptions {
  /** The session whose state the process starts from. Default: 'default'. Unknown: SESSION_NOT_FOUND. */
  sessionId?: string
}

/**
 * `starting` is seen of services only; `completed` is exit code 0, `killed` what somebody asked for, `failed` every other
 * end, `error` that the process was lost together with what watched over it.
 */
export type ProcessStatus = 'starting' | 'running' | 'completed' | 'failed' | 'killed' | 'error'

/** Why a process has ended: by itself, by a signal from somewhere else, or because it was ended. */
export type ExitReason = 'exit' | 'signal' | 'timeout' | 'oom' | 'killed'

/** How a process has ended. */
export interface ProcessExit {
  /** null when it was ended by a signal. */
  exitCode: number | null
  signal: SignalName | null
  /** null when it was lost: its status is 'error'. */
  reason: ExitReason | null
}

/** Options of {@link Process.kill}. */
export interface KillOptions {
  /** Milliseconds until SIGKILL, 0 to 2147483647. Default: as the process was started with. */
  forceKillAfterDelay?: number
}

/** What a process and everything below it use at the moment. */
export interface ProcessStats {
  /** Processor time so far, in ms. */
  cpuTime: number
  /** Bytes. */
  memory: number
  /** The most so far, in bytes. */
  memoryPeak: number
  /** Number of processes. */
  pids: number
  /** Bytes read from and written to disks. */
  ioRead: number
  ioWrite: number
}

/** A process as plain data. */
export interface ProcessInfo {
  readonly id: string
  /** Of the process that runs the command. */
  readonly pid: number
  /** The command; an argument list is shown quoted for a shell. */
  readonly command: string
  readonly sessionId: string
  /** As it is at this moment. */
  readonly status: ProcessStatus
  readonly startTime: Date
  /** null as long as it runs. */
  readonly endTime: Date | null
  /** null as long as it runs, and when it was ended by a signal. */
  readonly exitCode: number | null
  readonly signal: SignalName | null
  /** null as long as it runs, and when it was lost: its status is 'error'. */
  readonly reason: ExitReason | null
}

/**
 * A background process. It lives until it ends, is killed, or its session or sandbox ends.
 *
 * What is waited for keeps the event loop alive, a process that nobody waits for does not. When the process has been
 * forgotten, this object still says how it ended; its log is gone, and what needs it rejects with PROCESS_NOT_FOUND.
 */
export interface Process extends ProcessInfo {
  /**
   * Kills everything that belongs to the process: `signal` (default: its `killSignal`), then SIGKILL. Resolves when
   * nothing is left: true, or false when it had ended before.
   */
  kill(signal?: Signal, options?: KillOptions): Promise<boolean>
  /** Waits for its end. Rejects with PROCESS_READY_TIMEOUT, AbortError. */
  wait(options?: WaitOptions): Promise<ProcessExit>
  /** The same, with `timeout` in ms alone. */
  waitForExit(timeout?: number): Promise<ProcessExit>
  getStatus(): Promise<ProcessStatus>
  /** What it has printed until now. */
  getLogs<E extends Encoding = 'utf8'>(options?: LogOptions<E>): Promise<ProcessLogs<E>>
  /**
   * What it has printed and prints, then its end. Leaving the loop lets go of the log and nothing else. Any number of
   * readers can each go at their own pace. Throws {@link OptionError}.
   */
  output<E extends Encoding = 'utf8'>(
    options?: LogStreamOptions<E>,
  ): AsyncIterableIterator<LogEvent<E>, undefined>
  /**
   * Waits until a line of the log contains the text or matches the expression; also one that is there already. A line
   * without an end, like a prompt, counts when it has been quiet for 50 ms. A text is not empty and has no newline.
   *
   * Rejects with PROCESS_READY_TIMEOUT, PROCESS_EXITED_BEFORE_READY, both with `logTail`; AbortError.
   */
  waitForLog(pattern: string | RegExp, options?: WaitForLogOptions): Promise<LogMatch>
  /**
   * Waits until the process, or one that it started, listens on the port, and answers if `mode` is 'http'. A port that
   * somebody else listens on does not count.
   *
   * Rejects as waitForLog does.
   */
  waitForPort(port: number, options?: WaitForPortOptions): Promise<void>
  /**
   * Writes to standard input, and resolves when the pipe took it, or the process ended meanwhile. Needs `input: 'pipe'`.
   *
   * Rejects with INPUT_CLOSED when the process has ended, or the input has been closed by either side.
   */
  write(data: string | Uint8Array): Promise<void>
  /** Ends standard input. Nothing happens when it has been ended before. */
  closeStdin(): Promise<void>
  /**
   * Sets the size of the terminal, 1 to 65535 each, and tells the process so (SIGWINCH). Needs `pty`. False when the
   * process has ended.
   *
   * A shell that edits its lines reads the size and sets it again before each prompt: a resize within these
   * microseconds is lost, as in every terminal.
   */
  resize(cols: number, rows: number): Promise<boolean>
  /** Rejects with PROCESS_NOT_FOUND when the process has ended. */
  stats(): Promise<ProcessStats>
  /** Plain data of it. */
  toJSON(): ProcessInfo
  /** Kills it, if it runs. */
  [Symbol.asyncDispose](): Promise<void>
}

/** Which processes to list: those that all of this is true of. */
export interface ProcessFilter {
  status?: ProcessStatus | readonly ProcessStatus[]
  sessionId?: string
}
