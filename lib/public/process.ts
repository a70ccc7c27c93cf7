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
   * 1 to 128 characters of `A-Z a-z 0-9 . _ -`, not '.' or '..'. Default: `proc-` and ten random characters. In use, even
   * by an ended process that is still listed: PROCESS_ALREADY_EXISTS.
   */
  processId?: string
  /** Directory of the process; a relative path is resolved against the session's. Default: the session's. */
  cwd?: string | URL
  /** Environment changes over the session's. */
  env?: EnvChanges
  /** Milliseconds until the process is killed, with the reason 'timeout'; 0 to 2147483647, 0 = none. Default: 0. */
  timeout?: number
  /**
   * Aborting kills the process, with the reason 'killed'. Before startProcess resolves, an abort also rejects it
   * with an {@link AbortError}. With an aborted signal nothing runs.
   */
  signal?: AbortSignal
  /** The first signal of a kill, a timeout or an abort. Default: the sandbox's. */
  killSignal?: Signal
  /** Milliseconds between that signal and SIGKILL, 0 to 2147483647. Default: the sandbox's. */
  forceKillAfterDelay?: number
  /**
   * Standard input. Default: none, the process reads end of file. With 'pipe' it stays open, for {@link Process.write}; for
   * the text "pipe" itself, pass bytes. When an iterable throws, the process is killed and onError is called.
   */
  input?: Input | 'pipe'
  /**
   * Bytes of log kept, 0 to Number.MAX_SAFE_INTEGER; beyond that, the oldest are dropped. More than 768 KiB are kept on disk, in
   * an unnamed file below `stateDir`. Default: 67108864 (64 MiB).
   */
  logLimit?: number
  /**
   * Whether the process is forgotten, with its log, 60 s after its end, or earlier when 1000 such processes have ended
   * since, or 100 with more than 64 MiB of logs. With false it stays until {@link Sandbox.cleanupCompletedProcesses}.
   * Default: true.
   */
  autoCleanup?: boolean
  /** Limits of the process and its descendants. Default: only the sandbox's. */
  limits?: Limits
  /**
   * A terminal as standard input, output and error, of this size (1 to 65535 each), or of 80 x 24 with true. All output is
   * 'stdout'. The process has job control and owns the terminal; TERM is 'xterm-256color' where the session has none.
   * `input` is typed into the terminal, by default 'pipe', and its end is a Ctrl-D. See {@link Process.resize}. Default: no
   * terminal.
   */
  pty?: boolean | { cols: number; rows: number }
  /**
   * Gives the process one pipe for both streams. All output is then 'stdout', in the exact order. A terminal does the
   * same by itself. Default: false.
   */
  mergeOutput?: boolean
  /**
   * Prints the command, its end and its duration on standard error of this program. Default: whether `NACRE_DEBUG` is
   * `1` in its environment.
   */
  verbose?: boolean
  /** Called before startProcess resolves. When it throws, the process is killed and startProcess rejects. */
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
   * The same line by line, without `\n` or `\r\n`. An incomplete line at the end counts, and one before output that
   * `logLimit` has dropped.
   */
  onLine?: (line: string, stream: 'stdout' | 'stderr') => void
  /** Called when the process has ended, after the last output. */
  onExit?: (exitCode: number | null, signal: SignalName | null) => void
  /**
   * Called with the error just before startProcess rejects, except for an {@link OptionError}; later with what another
   * callback or the input throws, and when the process is lost. Default: the error is logged.
   */
  onError?: (error: unknown) => void
}

/** Options of {@link Sandbox.startProcess}. */
export interface ProcessOptions extends SessionProcessOptions {
  /** The session whose state the process starts from. Default: 'default'. Unknown: SESSION_NOT_FOUND. */
  sessionId?: string
}

/**
 * `starting` is reported only for services. `completed` is exit code 0, `killed` a requested end, `failed` any other end.
 * `error`: the process was lost, because its supervisor died.
 */
export type ProcessStatus = 'starting' | 'running' | 'completed' | 'failed' | 'killed' | 'error'

/** Why a process ended: by itself ('exit'), by a signal from outside, or by a timeout, its memory limit or a kill. */
export type ExitReason = 'exit' | 'signal' | 'timeout' | 'oom' | 'killed'

/** The end of a process. */
export interface ProcessExit {
  /** null when a signal ended it. */
  exitCode: number | null
  signal: SignalName | null
  /** null when it was lost: its status is 'error'. */
  reason: ExitReason | null
}

/** Options of {@link Process.kill}. */
export interface KillOptions {
  /** Milliseconds until SIGKILL, 0 to 2147483647. Default: the option of the process. */
  forceKillAfterDelay?: number
}

/** The resources that a process and its descendants use now. */
export interface ProcessStats {
  /** Processor time so far, in ms. */
  cpuTime: number
  /** Bytes. */
  memory: number
  /** The maximum so far, in bytes. */
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
  /** The pid of the process that runs the command. */
  readonly pid: number
  /** The command; an argument list is shown quoted for a shell. */
  readonly command: string
  readonly sessionId: string
  /** The current status. */
  readonly status: ProcessStatus
  readonly startTime: Date
  /** null while it runs. */
  readonly endTime: Date | null
  /** null while it runs, and when a signal ended it. */
  readonly exitCode: number | null
  readonly signal: SignalName | null
  /** null while it runs, and when it was lost: its status is 'error'. */
  readonly reason: ExitReason | null
}

/**
 * A background process. It lives until it ends, is killed, or its session or sandbox ends.
 *
 * A pending wait keeps the event loop alive; a process without one, and its callbacks, do not. When the process has been
 * forgotten, this object still has its end. Its log is dropped, and methods that need it reject with PROCESS_NOT_FOUND.
 */
export interface Process extends ProcessInfo {
  /**
   * Kills the process and its descendants: `signal` (default: its `killSignal`), then SIGKILL. Resolves when nothing is
   * left: true, or false when the process had ended before.
   */
  kill(signal?: Signal, options?: KillOptions): Promise<boolean>
  /** Waits for its end. Rejects with PROCESS_READY_TIMEOUT, AbortError. */
  wait(options?: WaitOptions): Promise<ProcessExit>
  /** The same with only a `timeout`, in ms. */
  waitForExit(timeout?: number): Promise<ProcessExit>
  getStatus(): Promise<ProcessStatus>
  /** The output so far. */
  getLogs<E extends Encoding = 'utf8'>(options?: LogOptions<E>): Promise<ProcessLogs<E>>
  /**
   * The output so far, then new output, then the end of the process. Leaving the loop does not affect the process. Any
   * number of readers can read at their own pace. Throws {@link OptionError}.
   */
  output<E extends Encoding = 'utf8'>(
    options?: LogStreamOptions<E>,
  ): AsyncIterableIterator<LogEvent<E>, undefined>
  /**
   * Waits until a line of the log contains the text or matches the expression, including the lines so far. A line
   * without an end, like a prompt, counts when it has been quiet for 50 ms. The text must not be empty or have a newline.
   *
   * Rejects with PROCESS_READY_TIMEOUT, PROCESS_EXITED_BEFORE_READY, both with `logTail`; AbortError.
   */
  waitForLog(pattern: string | RegExp, options?: WaitForLogOptions): Promise<LogMatch>
  /**
   * Waits until the process, or one that it started, listens on the port, and answers if `mode` is 'http'. A port on
   * which another process listens does not count.
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
  /** Closes standard input. No effect when it is closed already. */
  closeStdin(): Promise<void>
  /**
   * Sets the size of the terminal, 1 to 65535 each, and notifies the process (SIGWINCH). Needs `pty`. Resolves with false
   * when the process has ended.
   *
   * A shell with line editing reads the size before each prompt and sets it again. A resize within these microseconds is
   * lost, as in every terminal.
   */
  resize(cols: number, rows: number): Promise<boolean>
  /** Rejects with PROCESS_NOT_FOUND when the process has ended. */
  stats(): Promise<ProcessStats>
  /** The process as plain data. */
  toJSON(): ProcessInfo
  /** Kills the process, if it runs. */
  [Symbol.asyncDispose](): Promise<void>
}

/** Which processes to list: those that match all members. */
export interface ProcessFilter {
  status?: ProcessStatus | readonly ProcessStatus[]
  sessionId?: string
}
