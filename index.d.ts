/// <reference types="node" />

/**
 * nacre runs shell commands in persistent bash sessions, on Linux, from Node.js >= 20 and Bun >= 1.3.
 *
 * All times are in milliseconds and all sizes in bytes. Options that are `undefined` count as not given. An unknown
 * option name or a value out of range is an {@link OptionError} (a TypeError) before anything runs: methods that
 * return a promise reject with it, the constructor and `execStream` throw it.
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
  /**
   * Default for {@link ExecOptions.maxBuffer}: bytes kept per stream and command. Default: 67108864 (64 MiB) for exec
   * and 8388608 (8 MiB) for execStream, which hands all output out while the command runs.
   */
  maxBuffer?: number
  /**
   * Whom everything runs as: a name from the user database, or numbers. The groups are the user's, HOME, USER, LOGNAME
   * and SHELL are his unless `env` names them, and no set-user-ID program gives anything back (no_new_privs). This
   * process must be root; otherwise, or when there is no such user, the first call rejects with SPAWN_FAILED.
   * Default: the user of this process.
   */
  user?: string | { uid: number; gid: number }
  /**
   * What everything in the sandbox together may use; `openFiles` is for each single process. What cannot be enforced
   * here makes the first call reject with LIMIT_UNSUPPORTED. Default: no limits.
   */
  limits?: Limits
  /** Default for {@link ExecOptions.killSignal}. Default: 'SIGTERM'. */
  killSignal?: Signal
  /** Default for {@link ExecOptions.forceKillAfterDelay}: 0 to 2147483647 ms. Default: 5000. */
  forceKillAfterDelay?: number
  /** Whether `exit 3` ends the command and not the session. Default: true. */
  surviveExit?: boolean
  /** Directory for the engine's own files, created with mode 0700. Default: `<os.tmpdir()>/nacre-<uid>`. */
  stateDir?: string
  /**
   * Directory of durable jobs, one directory for each; see {@link Jobs}. Default: `<os.tmpdir()>/sandbox-jobs`, where any
   * program of the same user finds them. It is made, with mode 0700, when the first job is started.
   */
  jobsRoot?: string | URL
  /** Where the engine reports about itself. Default: nowhere. */
  logger?: Logger
}

/** Options of {@link Session.exec} and {@link Session.execStream}; where they differ, `result` is that of the stream. */
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
   * runs on; `truncated` says how much is missing. Default: the sandbox's. The events of a stream have everything.
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

/** Options of {@link Sandbox.exec} and {@link Sandbox.execStream}. */
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

/**
 * What happens to a command, in order: `start`, output, and then exactly one `complete` or `error`, which is the last. A
 * command that could not start has the `error` alone. `timestamp` is when it happened, as ISO 8601.
 */
export type ExecEvent<E extends Encoding = 'utf8'> = { timestamp: string } & (
  | {
      type: 'start'
      command: string
      /** Of the session's shell. */
      pid: number
      sessionId: string
    }
  | {
      type: 'stdout' | 'stderr'
      /** Never empty. As text a character is never split. What a command prints within a millisecond comes together. */
      data: Output<E>
      /**
       * The offset in this stream, in bytes, of what comes next: all bytes before it have been in events up to this
       * one. As text it counts bytes too, those of the UTF-8 that the command wrote.
       */
      cursor: number
    }
  | {
      type: 'complete'
      exitCode: number | null
      signal: NodeJS.Signals | null
      /** The same object that {@link ExecStream.result} resolves with. */
      result: ExecResult<E>
    }
  | {
      type: 'error'
      /**
       * What {@link ExecStream.result} rejects with, and exec would have. When `input` or a callback has thrown, it is
       * that exception as it is.
       */
      error: SandboxError | AbortError
    }
)

/** Options of {@link ExecStream.lines} and {@link ExecStream.toReadableStream}. */
export interface SourceOptions {
  /** Which output: one stream, or with 'all' both in order of arrival. Default: 'stdout'. */
  from?: 'stdout' | 'stderr' | 'all'
}

/**
 * A command that is running, or waiting for its turn. Its output can be read once, in one of three ways: by iterating
 * over the stream, by `lines` or by `toReadableStream`. Another attempt throws an {@link OptionError} with STREAM_LOCKED.
 *
 * - **Backpressure.** At most 4 MiB wait for the reader; then the command's pipe is left alone, and when that is full the
 *   command blocks. Nothing is lost, memory stays flat, and the session waits with the command. A command that is being
 *   killed is not held back for more than 0.1 s: what its reader does not take by then is only in the result.
 * - **Leaving** the iteration early (`break`, an exception, `cancel`) kills the command with everything it started in
 *   the foreground, and waits until it is gone. The session lives on.
 * - **Not reading** at all is fine when `result` is awaited: output beyond these 4 MiB is then dropped, but for what
 *   `maxBuffer` keeps in the result. To begin to read later than that throws STREAM_LOCKED.
 */
export interface ExecStream<E extends Encoding = 'utf8'> {
  /**
   * What exec would have given. Rejects as exec does, but is never an unhandled rejection by itself. Reading comes
   * first: within a loop that still has output to read, this may wait for that output for ever.
   */
  readonly result: Promise<ExecResult<E>>
  /**
   * Kills the command and everything it started in the foreground: `signal` (default: `killSignal`), then SIGKILL after
   * `forceKillAfterDelay`. Resolves when all of it is gone: true when this, or an abort, has ended it, false when it had
   * ended otherwise. A later call with SIGKILL cuts the delay short.
   *
   * That is no error: the stream ends with `complete`, and `result` has `signal` and `isCanceled`. A command that had
   * not started never runs, and its `signal` and `exitCode` are null. Rejects with {@link OptionError}.
   */
  kill(signal?: Signal): Promise<boolean>
  /** The events. Rejects only with STREAM_LOCKED, when `result` was awaited first and the output has been dropped. */
  [Symbol.asyncIterator](): AsyncIterableIterator<ExecEvent<E>>
  /**
   * The lines of the output as text, without their `\n` or `\r\n`, also the last one if it has none. What is not a line
   * (start, end, the other stream) is left out; a run that fails throws its error after the last line.
   *
   * Throws {@link OptionError}.
   */
  lines(options?: SourceOptions): AsyncIterableIterator<string>
  /**
   * The bytes of the output. A run that fails makes the stream fail with its error; `cancel()` kills the command.
   *
   * Throws {@link OptionError}.
   */
  toReadableStream(options?: SourceOptions): ReadableStream<Uint8Array>
  /** Kills the command if it still runs, and resolves when it is gone. */
  [Symbol.asyncDispose](): Promise<void>
}

/** What a process and everything it starts may use. A limit that this machine cannot enforce is LIMIT_UNSUPPORTED. */
export interface Limits {
  /** Bytes of memory. Beyond it the process is killed, with the reason 'oom'. */
  memory?: number
  /** Processors, more than 0: 0.5 is half the time of one. */
  cpus?: number
  /** Processes and threads at a time. */
  pids?: number
  /** File descriptors of each single process. */
  openFiles?: number
}

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
   * A terminal of this size, 1 to 65535 each, as standard input, output and error, which are one stream then: 'stdout'.
   * The process has job control and the terminal is its own; TERM is 'xterm-256color' where the session has none. `input`
   * is what is typed, by default 'pipe', and its end is a Ctrl-D. See {@link Process.resize}. Default: no terminal.
   */
  pty?: { cols: number; rows: number }
  /** Called when it runs, before startProcess resolves. When it throws, the process is killed and startProcess rejects. */
  onStart?: (process: Process) => void
  /**
   * Called with each piece of output as text, in order of arrival; characters are never split. What comes faster than
   * this takes it waits in the log, so it may miss what `logLimit` drops. When it throws it is not called again.
   */
  onOutput?: (stream: 'stdout' | 'stderr', data: string) => void
  /** Called when the process has ended, after the last onOutput. */
  onExit?: (exitCode: number | null, signal: NodeJS.Signals | null) => void
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
  signal: NodeJS.Signals | null
  /** null when it was lost: its status is 'error'. */
  reason: ExitReason | null
}

/** A piece of a process's output. */
export interface LogOutput<E extends Encoding = 'utf8'> {
  type: 'stdout' | 'stderr'
  /** Never empty. As text, characters are never split; one that arrived in two pieces comes with the second. */
  data: Output<E>
  /** Where to go on: the `since` that gives what follows this. Bytes in the whole log, both streams together. */
  cursor: number
  /** When it arrived, as ISO 8601, to 10 ms. */
  timestamp: string
  /** Bytes that are missing just before this, because of `logLimit` or a full disk. */
  missing?: number
}

/** The end of a process, after all of its output. */
export interface LogExit extends ProcessExit {
  type: 'exit'
  timestamp: string
  missing?: number
}

/** What {@link Process.output} and {@link Sandbox.streamProcessLogs} give. */
export type LogEvent<E extends Encoding = 'utf8'> = LogOutput<E> | LogExit

/** A log as a whole. */
export interface ProcessLogs<E extends Encoding = 'utf8'> {
  stdout: Output<E>
  stderr: Output<E>
  /** Bytes of both streams that are missing, because of `logLimit` or a full disk; not there when none are. */
  truncated?: number
}

/** Options of {@link Process.getLogs}. */
export interface LogOptions<E extends Encoding = 'utf8'> {
  /** 'utf8' gives strings, 'buffer' gives bytes. Default: 'utf8'. */
  encoding?: E
}

/** Options of {@link Process.output}. */
export interface LogStreamOptions<E extends Encoding = 'utf8'> extends LogOptions<E> {
  /** Where to begin: the `cursor` of an event, or any number of bytes. Beyond the end it is the end. Default: 0. */
  since?: number
  /** Whether to go on until the process has ended. With false, what is there at the first `next` is all. Default: true. */
  follow?: boolean
  /** Aborting makes the iteration throw an {@link AbortError}. The process does not notice. */
  signal?: AbortSignal
}

/** Options of {@link Process.wait}. */
export interface WaitOptions {
  /** Milliseconds until the wait is given up with PROCESS_READY_TIMEOUT; 0 to 2147483647, 0 = none. Default: 0. */
  timeout?: number
  /** Aborting gives up the wait with an {@link AbortError}. The process does not notice. */
  signal?: AbortSignal
}

/** Options of {@link Process.waitForLog}. */
export interface WaitForLogOptions extends WaitOptions {
  /** Where in the log to begin, like that of {@link LogStreamOptions}. Default: 0. */
  since?: number
}

/** A line that was waited for. */
export interface LogMatch {
  /** Without its end. Of a line above 1 MiB, a part. */
  line: string
  /** What a regular expression has matched. */
  match?: RegExpExecArray
}

/** How to look at a port. */
export interface PortOptions {
  /** 'tcp': the process listens. 'http': it answers as well. Default: 'http' when `path` or `status` is given. */
  mode?: 'http' | 'tcp'
  /**
   * The page to ask for with GET, at 127.0.0.1 or else ::1. Printable ASCII without blanks that begins with
   * `/`; not with `mode: 'tcp'`, nor is `status`. Default: '/'.
   */
  path?: string
  /** The status of the answer, 100 to 599, or a range. Redirections are not followed. Default: 200 to 399. */
  status?: number | { min?: number; max?: number }
  /** Milliseconds between two looks, 1 to 2147483647. Default: 100. */
  interval?: number
}

/** Options of {@link Process.waitForPort}. */
export interface WaitForPortOptions extends PortOptions, WaitOptions {}

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
  readonly endTime?: Date | undefined
  /** null as long as it runs, and when it was ended by a signal. */
  readonly exitCode: number | null
  readonly signal: NodeJS.Signals | null
  readonly reason?: ExitReason | undefined
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
   */
  resize(cols: number, rows: number): boolean
  /** Rejects with PROCESS_NOT_FOUND when the process has ended. */
  stats(): Promise<ProcessStats>
  /** Plain data of it. */
  toJSON(): ProcessInfo
  /** Kills it, if it runs. */
  [Symbol.asyncDispose](): Promise<void>
}

/** When a service is ready. `timeout` is for all attempts together, in ms, 0 = none. Default: 30000. */
export type HealthCheck =
  | (PortOptions & { port: number; timeout?: number })
  | {
      /** A line of the log, as for {@link Process.waitForLog}. */
      log: string | RegExp
      timeout?: number
    }
  | {
      /** A command that succeeds. It runs beside the service, with its session, directory and environment. */
      command: Command
      /** Milliseconds between two attempts, each of which has 10 s. Default: 500. */
      interval?: number
      timeout?: number
    }

/** Options of {@link Sandbox.startService}. */
export interface ServiceOptions extends ProcessOptions {
  healthCheck: HealthCheck
  /**
   * What happens when the process fails: ends with another code than 0, by a signal of somebody else, or for lack of
   * memory. With 'on-failure' another is started, with the same id. Default: 'never'.
   */
  restart?: 'never' | 'on-failure'
  /**
   * Milliseconds before the first restart, 1 to 2147483647. Each failure in a row doubles them, up to 30 s; one after a
   * minute without trouble is the first again. Default: 500.
   */
  restartDelay?: number
  input?: string | Uint8Array | 'pipe'
}

/** How a process of a service has failed. */
export interface ServiceFailure extends ProcessExit {
  endTime: Date
  /** The last lines of its log, which goes when the next process is started. */
  logTail: string
}

/** How a service is. */
export interface ServiceHealth {
  /** Its health check passes. For one by log: it has passed, and the process runs. */
  healthy: boolean
  status: ProcessStatus
  /** How often it has been started again. */
  restarts: number
  lastFailure?: ServiceFailure
}

/**
 * A process that is to go on: the members of {@link Process} are those of the one that runs at the moment. `kill` ends it
 * for good, `status` is 'starting' while it is not ready or waits for its next start.
 */
export interface Service extends Process {
  readonly restarts: number
  readonly lastFailure?: ServiceFailure | undefined
  /** Looks now. */
  getHealth(): Promise<ServiceHealth>
  /**
   * Kills the process and starts it anew; resolves when it is ready. Also when it has ended or was killed.
   *
   * Rejects as {@link Sandbox.startService} does.
   */
  restart(): Promise<void>
}

/** Which processes to list: those that all of this is true of. */
export interface ProcessFilter {
  status?: ProcessStatus | readonly ProcessStatus[]
  sessionId?: string
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

/** A durable job: plain data, which can be stored and sent elsewhere. `jobId` alone is enough for every call. */
export interface JobHandle {
  jobId: string
  /** The job's directory. */
  dir: string
  /** Standard output and standard error together. */
  outputFile: string
  /** Holds the exit code once the command has ended; 128 and the signal's number when a signal ended it. */
  exitFile: string
  /** The process group of the job's supervisor: SIGTERM to it is a cancel. */
  pgid: number
  /** Directory of the job's control group; null when it has none. */
  cgroup: string | null
  processName?: string
}

/** A job in a list. */
export interface JobInfo extends JobHandle {
  /** ISO 8601. */
  createdAt: string
  /** Only of jobs that nacre has started. */
  command?: string
  status: JobStatus
}

/** How a job is. */
export interface JobStatus {
  /** 'crashed': it is gone and nobody has recorded how. Its output is kept. */
  state: 'running' | 'exited' | 'crashed'
  /** null while it runs, after a crash, and when a signal ended the command. Never guessed. */
  exitCode: number | null
  /** The signal that ended the command, if one did. */
  signal?: NodeJS.Signals
  /**
   * Why it ended: 'exit' by itself, 'signal' by a signal of somebody, 'timeout', 'cancelled', 'oom' by its memory limit.
   * After a cancel or a timeout the code or the signal is what the command itself made of it. Of a crash: 'killed' when
   * the supervisor was, 'reboot' when the machine was started anew.
   */
  reason?: 'exit' | 'signal' | 'timeout' | 'cancelled' | 'oom' | 'killed' | 'reboot'
  /** Something of the job runs. True after 'exited' as long as processes run that the command has left behind. */
  alive: boolean
  /** When the command ended, as ISO 8601. */
  endedAt?: string
  /** Milliseconds that it ran, by a monotonic clock. */
  duration?: number
  /** The disk was full while it ran: what was printed then is lost. */
  outputLost?: true
}

/** Argument of {@link Jobs.start}. */
export interface JobStartOptions {
  command: Command
  /** 1 to 128 characters of `A-Z a-z 0-9 . _ -`, not '.' or '..'. Default: one that cannot be guessed and sorts by time. */
  jobId?: string
  /** A relative path is resolved against the sandbox's. Default: the sandbox's. */
  cwd?: string | URL
  /** Environment changes over the sandbox's. */
  env?: EnvChanges
  /** For people: 1 to 256 characters, no control characters. */
  processName?: string
  /** Seconds until everything of the job is ended, greater than 0, at most 2147483. Default: none. */
  timeoutSeconds?: number
  /** What the job may use. Default: the sandbox's limits, for each job by itself. */
  limits?: Limits
  /** What the command reads from its standard input. Default: end of file at once. */
  stdin?: string | Uint8Array
}

/** Options of {@link Jobs.read}. */
export interface JobReadOptions<E extends Encoding = 'utf8'> {
  /** 1 to 67108864. As text a character that is longer comes whole. Default: 1048576. */
  maxBytes?: number
  /**
   * Whether to cut behind the last newline. What is without one is kept back until the job has ended, or is as long as
   * `maxBytes`. Default: false.
   */
  lines?: boolean
  /** Default: 'utf8'. */
  encoding?: E
}

/** Options of {@link Jobs.follow}. */
export interface JobFollowOptions<E extends Encoding = 'utf8'> extends JobReadOptions<E> {
  /** Aborting makes the iterator reject with an {@link AbortError}; the job goes on. */
  signal?: AbortSignal
}

/** A part of a job's output. */
export interface JobRead<E extends Encoding = 'utf8'> {
  /** As text, characters are never split and invalid bytes become U+FFFD. */
  raw: Output<E>
  /** Where to read on: an offset in bytes in the output, whatever the encoding. */
  cursor: number
  /** How many bytes `raw` stands for. */
  bytesFetched: number
  /** Taken before the output was read: when the job has ended and nothing was fetched, there is nothing more. */
  status: JobStatus
}

/**
 * Durable jobs: commands that outlive this sandbox and this program, and are read by any later one, by their id.
 *
 * Everything about a job is in its directory; docs/jobs.md describes the format. A job starts from the sandbox's
 * directory and environment, and from nothing of a session. Where a job is asked for, its id or its handle does; of a
 * handle only `jobId` is used, so it cannot lead out of {@link Jobs.root}. Unknown ids are JOB_NOT_FOUND.
 */
export interface Jobs {
  /** The directory of all jobs. */
  readonly root: string
  /**
   * Starts a job, and resolves when its command runs and the job can be found. When this program ends meanwhile, in
   * whatever way, there is either such a job, or nothing.
   *
   * Rejects with OptionError, or SandboxError, and then nothing runs and no directory is left: JOB_ALREADY_EXISTS,
   * CWD_NOT_FOUND, LIMIT_UNSUPPORTED, STATE_DIR_UNAVAILABLE, SPAWN_FAILED.
   */
  start(options: JobStartOptions): Promise<JobHandle>
  status(job: JobHandle | string): Promise<JobStatus>
  /** Reads what is there from `cursor` on, and does not wait. Behind the end there is nothing. */
  read<E extends Encoding = 'utf8'>(
    job: JobHandle | string,
    cursor?: number,
    options?: JobReadOptions<E>,
  ): Promise<JobRead<E>>
  /** Reads what is there and what comes, until the job has ended and all is read. No piece is empty. */
  follow<E extends Encoding = 'utf8'>(
    job: JobHandle | string,
    cursor?: number,
    options?: JobFollowOptions<E>,
  ): AsyncIterableIterator<JobRead<E>, undefined>
  /** Waits until the job has ended. Rejects with an {@link AbortError} when the signal is aborted. */
  wait(job: JobHandle | string, options?: { signal?: AbortSignal }): Promise<JobStatus>
  /**
   * Ends everything of a job, also what has left its session or its group: SIGTERM, and SIGKILL after `graceMs`
   * (default: the sandbox's `forceKillAfterDelay` at the start of the job). Resolves when nothing is left, also when
   * nothing was.
   */
  cancel(job: JobHandle | string, options?: { graceMs?: number }): Promise<void>
  /** The handle of a job, or null when there is none, or its meta.json is damaged. */
  attach(id: string): Promise<JobHandle | null>
  /** All jobs in the order of their starts. */
  list(): Promise<JobInfo[]>
  /** Removes the directory of a job that is over. Rejects with JOB_RUNNING when something of it still runs. */
  remove(job: JobHandle | string): Promise<void>
}

/** What a remote sandbox has to offer for jobs: the shape of the Daytona SDK's `sandbox.process`. */
export interface JobsBackend {
  readonly process: {
    /**
     * Runs a command line to its end, on Linux, and gives what it has printed. It may be run by any shell, or be split
     * into words like by one. nacre leaves `cwd` and `env` out.
     */
    executeCommand(
      command: string,
      cwd?: string,
      env?: Record<string, string>,
      timeoutSeconds?: number,
    ): Promise<{ exitCode: number; result: string }>
  }
}

/** Options of {@link createSandboxJobs}. Paths are absolute, and those of the remote machine. */
export interface SandboxJobsOptions {
  /** Directory of the jobs; it is made, with mode 0700, by the first call. Default: `/tmp/sandbox-jobs`. */
  jobsRoot?: string
  /** Where jobs run, and what a relative `cwd` of a job is resolved against. Default: where the backend runs commands. */
  cwd?: string
  /** Changes to the environment in which the backend runs commands. */
  env?: EnvChanges
  /** Milliseconds between SIGTERM and SIGKILL of a cancel or a timeout, 0 to 2147483647. Default: 5000. */
  forceKillAfterDelay?: number
  /** Milliseconds that one call of the backend may take; 1 to 2147483647, in whole seconds, rounded up. Default: 60000. */
  callTimeout?: number
  /**
   * Milliseconds between two looks of `wait` and `follow` at a job from which nothing comes: they begin with 50 and grow
   * to this. 1 to 2147483647. Default: 2000.
   */
  maxPollInterval?: number
}

/**
 * Durable jobs in a remote sandbox that can do nothing but run a command and give back its output.
 *
 * The methods and the directories are those of {@link Sandbox.jobs}, and each side can read the jobs of the other. No
 * connection is held, and nothing is remembered here. Different from local jobs, as docs/jobs.md explains: the command
 * runs in `bash` if there is one and otherwise in `sh`; of the limits only `openFiles` is possible, others reject with
 * LIMIT_UNSUPPORTED; `read` gives at most 4 MiB at a time; a process that leaves its session and empties its environment
 * escapes a cancel. What the backend throws, or a reply that is none, is an ENGINE_ERROR.
 *
 * ```js
 * const jobs = createSandboxJobs(await daytona.create())
 * const { jobId } = await jobs.start({ command: 'make all', timeoutSeconds: 3600 })
 * for await (const { raw } of jobs.follow(jobId)) process.stdout.write(raw)
 * ```
 *
 * Does no I/O. Throws {@link OptionError}.
 */
export function createSandboxJobs(backend: JobsBackend, options?: SandboxJobsOptions): Jobs

/** What this machine offers and which mechanisms the engine therefore uses. */
export interface Capabilities {
  /** Whether process trees are held in cgroups, or followed by other means. */
  cgroup: 'v2' | 'none'
  /** Whether the kernel can kill a whole cgroup at once (cgroup.kill). */
  cgroupKill: boolean
  /** Those of the controllers 'memory', 'pids' and 'cpu' that are there; notes say what becomes of limits without them. */
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
  /** Runs a command in this session, as events. See {@link Sandbox.execStream}. */
  execStream<E extends Encoding = 'utf8'>(command: Command, options?: SessionExecOptions<E>): ExecStream<E>
  /** Starts a background process from this session. See {@link Sandbox.startProcess}. */
  startProcess(command: Command, options?: SessionProcessOptions): Promise<Process>
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
   * The same run as {@link Sandbox.exec}, as events while it runs. It begins, or queues up, at once.
   *
   * ```js
   * for await (const event of sandbox.execStream('npm run build')) {
   *   if (event.type === 'stdout') process.stdout.write(event.data)
   *   if (event.type === 'complete') console.log(event.exitCode)
   * }
   * ```
   *
   * Throws {@link OptionError}; everything else that can go wrong is the event `error` and the rejection of `result`.
   */
  execStream<E extends Encoding = 'utf8'>(command: Command, options?: ExecOptions<E>): ExecStream<E>

  /**
   * Starts a background process with the whole state of a session: directory, variables, functions, options. It does not
   * wait for a command that runs there: it then starts from the state after the last finished one. Resolves when the
   * process has a pid.
   *
   * Rejects with OptionError, AbortError, or SandboxError: PROCESS_ALREADY_EXISTS, SESSION_NOT_FOUND, CWD_NOT_FOUND,
   * LIMIT_UNSUPPORTED, SPAWN_FAILED, SANDBOX_DESTROYED, ENGINE_ERROR.
   */
  startProcess(command: Command, options?: ProcessOptions): Promise<Process>

  /**
   * Starts a process and waits until it is ready. When it is not in time, or ends before, it is killed and nothing of it
   * is left.
   *
   * Rejects as startProcess does, and with PROCESS_READY_TIMEOUT or PROCESS_EXITED_BEFORE_READY, both with `logTail`.
   */
  startService(command: Command, options: ServiceOptions): Promise<Service>

  /** The processes that are known, in the order of their starts; ended ones too, until they are cleaned up. */
  listProcesses(filter?: ProcessFilter): Promise<Process[]>

  /** The process of that id, or null. */
  getProcess(id: string): Promise<Process | null>

  /** See {@link Process.kill}. Rejects with PROCESS_NOT_FOUND. */
  killProcess(id: string, signal?: Signal, options?: KillOptions): Promise<boolean>

  /** Kills all processes at the same time; resolves with how many there were, when nothing of them is left. */
  killAllProcesses(): Promise<number>

  /** Forgets processes that have ended, and their logs; resolves with how many there were. */
  cleanupCompletedProcesses(): Promise<number>

  /** What a process has printed until now. Rejects with PROCESS_NOT_FOUND. */
  getProcessLogs<E extends Encoding = 'utf8'>(id: string, options?: LogOptions<E>): Promise<ProcessLogs<E>>

  /** See {@link Process.output}. An unknown id rejects the first `next` with PROCESS_NOT_FOUND. */
  streamProcessLogs<E extends Encoding = 'utf8'>(
    id: string,
    options?: LogStreamOptions<E>,
  ): AsyncIterableIterator<LogEvent<E>, undefined>

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

  /** Durable jobs, which outlive this sandbox and this program. */
  readonly jobs: Jobs

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

/** Codes of {@link SandboxError}. CONNECTION_FAILED and REQUEST_REFUSED are those of `nacre/client` alone. */
export type SandboxErrorCode =
  | 'COMMAND_FAILED'
  | 'COMMAND_TIMEOUT'
  | 'CONNECTION_FAILED'
  | 'CWD_NOT_FOUND'
  | 'ENGINE_ERROR'
  | 'INPUT_CLOSED'
  | 'INVALID_ENV_NAME'
  | 'JOB_ALREADY_EXISTS'
  | 'JOB_NOT_FOUND'
  | 'JOB_RUNNING'
  | 'LIMIT_UNSUPPORTED'
  | 'PROCESS_ALREADY_EXISTS'
  | 'PROCESS_EXITED_BEFORE_READY'
  | 'PROCESS_NOT_FOUND'
  | 'PROCESS_READY_TIMEOUT'
  | 'REQUEST_REFUSED'
  | 'SANDBOX_DESTROYED'
  | 'SESSION_ALREADY_EXISTS'
  | 'SESSION_DESTROYED'
  | 'SESSION_NOT_FOUND'
  | 'SESSION_TERMINATED'
  | 'SPAWN_FAILED'
  | 'STATE_DIR_UNAVAILABLE'

/** Codes of {@link OptionError}. */
export type OptionErrorCode =
  | 'INVALID_COMMAND'
  | 'INVALID_ENV_NAME'
  | 'INVALID_ID'
  | 'INVALID_OPTION'
  | 'STREAM_LOCKED'

/**
 * Something went wrong at run time; `code` says what. INVALID_ENV_NAME is here for a variable that the session's shell
 * has made read-only; for a name that is none it is an {@link OptionError}.
 */
export class SandboxError extends Error {
  constructor(
    code: SandboxErrorCode,
    message: string,
    options?: { cause?: unknown; result?: ExecResult<Encoding>; logTail?: string },
  )
  readonly code: SandboxErrorCode
  /** Of a failed command: the result so far. */
  readonly result?: ExecResult<Encoding>
  /** Of a process that did not get ready: the last lines of its log, both streams in order of arrival. */
  readonly logTail?: string
}

/**
 * A bad argument: an unknown option, a value out of range, a malformed name. The message names it and its bounds. With
 * STREAM_LOCKED a call that is not possible any more: a stream is read once.
 */
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
