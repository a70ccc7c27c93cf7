/** Foreground commands: options, results and events. */

import type { Encoding, EnvChanges, Input, Output, Signal, SignalName } from '../base/types.js'
import { openableInput } from '../schema/command.js'
import { env } from '../schema/env.js'
import { table } from '../schema/kind.js'
import { identifier } from '../schema/names.js'
import { bytes, milliseconds, positiveMilliseconds } from '../schema/numbers.js'
import { directory } from '../schema/paths.js'
import { abortSignal, killSignal } from '../schema/signals.js'
import { callback, encoding, flag, ownFlag } from '../schema/values.js'
import { type Budget, budget } from './budget.js'
import type { AbortError, SandboxError } from './errors.js'
import type { KillReason, ProcessWaiting } from './exit.js'
import type { LogLines, LogLinesOptions, LogOptions, ProcessLogs } from './logs.js'
import { type Process, pty } from './process.js'
import type { ExecResult } from './result.js'
import type { WaitEnd, WaitForOptions, WaitOptions } from './waits.js'

/** Options of {@link Session.exec} and {@link Session.execStream}. */
export interface SessionExecOptions<E extends Encoding = 'utf8', L extends boolean = false> {
  /**
   * Directory for this command only. A relative path starts at the session's directory, which is restored afterwards.
   * If the directory does not exist, exec rejects with CWD_NOT_FOUND and nothing runs. Default: the session's.
   */
  cwd?: string | URL
  /** Changes to the environment for this command only. The previous values are restored exactly afterwards. */
  env?: EnvChanges
  /**
   * Milliseconds the command may run, 0 to 2147483647; 0 = no limit. A fraction is rounded up. On timeout, everything
   * that this command started is killed, even after `&`, `setsid` or a double fork, and exec rejects with
   * COMMAND_TIMEOUT. Processes that earlier commands left behind continue. The time counts from the call, so it includes
   * the wait for earlier commands of the session and the start of its shell, but not checkpoints. Default: the sandbox's.
   */
  timeout?: number
  /**
   * Milliseconds until a command that still runs becomes a background process of its session, more than 0 and up to
   * 2147483647. A fraction is rounded up. The session is free then, and exec resolves with the output so far and `process`.
   *
   * It is as after {@link ExecStream.detach}, except that `timeout` goes on and kills the process, and that the call is over:
   * `outputLimit`, `signal` and callbacks no longer apply, and the stream of execStream ends. While no shell can take the
   * place of the command's, for lack of processes or memory, exec goes on waiting and tries again each second. Rejected with
   * an iterable as `input`. Default: never.
   */
  detachAfter?: number
  /**
   * Aborting cancels the command: a queued command never runs, a running command is killed. exec then rejects with an
   * {@link AbortError}. Aborting has no effect after the command has ended.
   */
  signal?: AbortSignal
  /** The first signal that a timeout or an abort sends. Default: the sandbox's. */
  killSignal?: Signal
  /** Milliseconds between `killSignal` and SIGKILL, 0 to 2147483647. Default: the sandbox's. */
  forceKillAfterDelay?: number
  /**
   * Standard input. Default: end of file. 'pipe' keeps it open for later input, only for execStream.
   *
   * {@link ExecStream.write} sends later input. To send the text "pipe", pass bytes. Items of an iterable are written as
   * the command reads them. If the command ends first, the iterable is closed. If the iterable throws, the command is
   * killed and exec rejects with that error.
   */
  input?: Input | 'pipe'
  /**
   * Runs the command on a terminal of this size (1 to 65535 each; 80 x 24 with true), as the session's own command: what it
   * changes in the shell stays. The terminal is standard input, output and error, and the controlling terminal. All output is
   * 'stdout'. If the session has no TERM, it is 'xterm-256color' for the command.
   *
   * `input` is typed into the terminal, and its end is sent as Ctrl-D. Default of `input` with a terminal: end of file for
   * exec, and 'pipe' for execStream. The terminal ends with the command; what it has left behind goes on without one.
   *
   * exec rejects with TERMINAL_UNAVAILABLE while a process that an earlier command has left in the background is in the
   * process group of the shell, since keys like Ctrl-C would signal it too; and in plain mode. Default: no terminal.
   */
  pty?:
    | boolean
    | {
        /** Columns, 1 to 65535. */
        cols: number
        /** Rows, 1 to 65535. */
        rows: number
      }
  /** 'utf8' gives strings, 'buffer' gives bytes in stdout, stderr and all. Default: 'utf8'. */
  encoding?: E
  /**
   * Gives the command one pipe for both streams. All output then arrives as stdout, in the exact order, and stderr is
   * empty. Otherwise each stream has its own pipe, and their order is only the order in which they were read.
   * Default: false.
   */
  mergeOutput?: boolean
  /**
   * Returns stdout, stderr and all as arrays of lines, without their `\n` or `\r\n`. A final newline ends the last line
   * and begins no new line, so empty output has no lines. A mark of omitted output is a line too. Rejected with
   * encoding 'buffer'. The events of a stream remain text. Default: false.
   */
  lines?: L
  /**
   * Whether to remove one final `\n` or `\r\n` from stdout, stderr and all. With `lines`, an explicit false keeps the
   * line endings. Default: false.
   */
  stripFinalNewline?: boolean
  /**
   * Maximum bytes kept per stream, 0 to Number.MAX_SAFE_INTEGER. Of longer output, the head and the tail are kept, and
   * the command continues. A line like `[48,694 bytes omitted]` marks the gap, and `truncated` has the number of
   * missing bytes. The events of a stream are complete. Default: the sandbox's.
   */
  maxBuffer?: number
  /**
   * Maximum bytes of stdout and stderr together, 0 to Number.MAX_SAFE_INTEGER. A command that prints more is killed like
   * on a timeout, and exec rejects with OUTPUT_LIMIT; the result has the output up to the limit. Default: no limit.
   */
  outputLimit?: number
  /**
   * What the command may use. When it has used that, it is killed like on a timeout, and exec rejects with BUDGET_EXCEEDED; the
   * result has the output so far. With control groups, the budget holds, too, when the command has become a process. Default: no limit.
   */
  budget?: Budget
  /**
   * Keeps a log of a stream from its beginning, as of a process: its last bytes, 0 to Number.MAX_SAFE_INTEGER. It can be
   * read with `getLogs` and `getLogLines`, while the command runs and after it has ended. Output beyond the newest 512 KiB
   * is on disk. Only for streams. Default: no log.
   *
   * nacre forgets the log with the stream, or once 1000 later streams with a log have ended, or 100 with more than 64 MiB of
   * logs; `getLogs` then rejects with PROCESS_NOT_FOUND.
   */
  logLimit?: number
  /** Whether a failed command rejects with COMMAND_FAILED. Default: false. */
  check?: boolean
  /**
   * Prints the command, how it ended and its duration to standard error of this program. Default: true if `NACRE_DEBUG`
   * is `1` in the environment of this program.
   */
  verbose?: boolean
  /**
   * Called with each piece of output as text while the command runs, in order of arrival; characters are never split. A
   * slow callback delays the command. If this callback or another one up to `onComplete` throws, a running command is
   * killed and exec rejects with that exception. Promises returned by callbacks are not awaited.
   */
  onOutput?: (stream: 'stdout' | 'stderr', data: string) => void
  /** The same for standard output alone. */
  onStdout?: (data: string) => void
  /** The same for standard error alone. */
  onStderr?: (data: string) => void
  /** The same, line by line, without `\n` or `\r\n`. An unterminated last line counts. */
  onLine?: (line: string, stream: 'stdout' | 'stderr') => void
  /** Called when the command starts to run, with the pid of the session's shell. */
  onStart?: (start: { command: string; pid: number; sessionId: string }) => void
  /** Called with the result just before exec resolves. */
  onComplete?: (result: ExecResult<E, L>) => void
  /**
   * Called with the error just before exec rejects, except for an {@link OptionError}. Exceptions of this callback are
   * logged.
   */
  onError?: (error: unknown) => void
}

export const sessionExecOptions = table<SessionExecOptions<Encoding, boolean>>()({
  cwd: directory,
  env,
  timeout: milliseconds,
  detachAfter: positiveMilliseconds,
  signal: abortSignal,
  killSignal,
  forceKillAfterDelay: milliseconds,
  input: openableInput,
  pty,
  encoding: { ...encoding, default: 'utf8' },
  mergeOutput: { ...flag, default: false },
  lines: { ...ownFlag, default: false },
  stripFinalNewline: { ...flag, default: false },
  maxBuffer: bytes,
  outputLimit: bytes,
  budget,
  logLimit: bytes,
  check: { ...flag, default: false },
  verbose: ownFlag,
  onOutput: callback,
  onStdout: callback,
  onStderr: callback,
  onLine: callback,
  onStart: callback,
  onComplete: callback,
  onError: callback,
})

/** Options of {@link Sandbox.exec} and {@link Sandbox.execStream}. */
export interface ExecOptions<E extends Encoding = 'utf8', L extends boolean = false>
  extends SessionExecOptions<E, L> {
  /** The session to run in. Default: 'default', which always exists. An unknown id rejects with SESSION_NOT_FOUND. */
  sessionId?: string
}

export const execOptions = table<ExecOptions<Encoding, boolean>>()({
  sessionId: { ...identifier, default: 'default' },
  ...sessionExecOptions,
})

/**
 * The events of a command, in order: `start`, output, and finally one `complete` or `error`. A command that could not
 * start has only `error`. `time` is when it happened.
 */
export type ExecEvent<E extends Encoding = 'utf8', L extends boolean = false> = { time: Date } & (
  | {
      type: 'start'
      command: string
      /** The pid of the session's shell. */
      pid: number
      sessionId: string
    }
  | {
      type: 'stdout' | 'stderr'
      /** Output, never empty. Characters of text are never split. Output of the same millisecond is one event. */
      data: Output<E>
      /** The byte offset in this stream after this event. It counts the bytes that the command wrote, for text too. */
      cursor: number
    }
  | {
      type: 'complete'
      exitCode: number | null
      signal: SignalName | null
      /** The same object that {@link ExecStream.result} resolves with. */
      result: ExecResult<E, L>
    }
  | {
      type: 'error'
      /**
       * The error with which {@link ExecStream.result} rejects. If `input` or a callback threw, this is the exception
       * itself.
       */
      error: SandboxError | AbortError
    }
)

/** Options of {@link ExecStream.lines} and {@link ExecStream.toReadableStream}. */
export interface SourceOptions {
  /** Which output to read: one stream, or both in order of arrival ('all'). Default: 'stdout'. */
  from?: 'stdout' | 'stderr' | 'all'
}

/**
 * A running or queued command. Its output can be read once: by iterating over the stream, with `lines` or with
 * `toReadableStream`. A second attempt throws an {@link OptionError} with STREAM_LOCKED.
 *
 * - **Backpressure.** At most 4 MiB wait for the reader (over HTTP, 1 MiB in the server). Beyond that, nothing reads
 *   the command's pipe, and the command blocks when the pipe is full. No output is lost, memory stays bounded, and
 *   later commands of the session wait. A command that is being killed blocks for at most 0.1 s; output that its reader
 *   has not taken by then is only in the result.
 * - **Leaving** the iteration early (`break`, an exception, `cancel`) kills the command and everything it started, and
 *   waits until all have ended. The session continues.
 * - **Not reading** is fine if you await `result`, which has the output that `maxBuffer` keeps. Once the command has
 *   ended, or has printed more than these 4 MiB, an attempt to read throws STREAM_LOCKED.
 */
export interface ExecStream<E extends Encoding = 'utf8', L extends boolean = false> {
  /**
   * Settles like `exec`, but never causes an unhandled rejection. Read the output first: if you await this within a
   * loop that still has output to read, it may never settle.
   */
  readonly result: Promise<ExecResult<E, L>>
  /**
   * Kills the command and everything it started: sends `signal` (default: `killSignal`), then SIGKILL after
   * `forceKillAfterDelay`. Resolves when all have ended, with true if a kill or an abort ended the command. A later
   * call with SIGKILL skips the rest of the delay.
   *
   * A kill is not an error: the stream ends with `complete`, and `result` has `signal` and `cancelled`. A queued command
   * never runs, and its `signal` and `exitCode` are null. A command that has become a process, by `detach` or `detachAfter`,
   * is killed too. Rejects with {@link OptionError}.
   */
  kill(signal?: Signal, options?: KillReason): Promise<boolean>
  /**
   * Writes to standard input. Resolves when the pipe has accepted the data, or the command has ended. Needs
   * `input: 'pipe'`.
   *
   * What is written before the command runs waits for it. Rejects with INPUT_CLOSED if the command has ended or the
   * input is closed.
   */
  write(data: string | Uint8Array): Promise<void>
  /** Closes standard input. Has no effect if it is already closed. Needs `input: 'pipe'`. */
  closeInput(): Promise<void>
  /**
   * Sets the size of the terminal, 1 to 65535 columns and rows. Resolves with false if the command does not run yet, or has
   * ended. Needs `pty`.
   */
  resize(cols: number, rows: number): Promise<boolean>
  /**
   * Makes the running command a background process of its session, which is free at once for the next command. Resolves
   * with the process, also when it has just ended. A second call resolves with the same process.
   *
   * - **The process** has the output of the command from the beginning, as far as `logLimit`, or without it `maxBuffer`,
   *   has kept it, and its exit code. `kill` kills the command and everything it started. `input` of the command goes on;
   *   with `input: 'pipe'`, the process has `write` and `closeInput` for the same input. It ends with its session, like
   *   every process.
   * - **The session** has the state before the command: what the command changes (directory, variables, functions) is
   *   lost. Background jobs of earlier commands go on, but the new shell does not list them in `jobs`.
   * - **The stream** goes on to its end, and `result` is that of the command. `timeout`, `outputLimit`, `signal` and
   *   leaving the iteration no longer kill the command; `kill` does. If nothing reads the stream, its output is dropped.
   *
   * Rejects with DETACH_FAILED if the command has not begun, has ended or is being killed. Nothing has changed then.
   */
  detach(): Promise<Process>
  /**
   * The output so far, also while another reader iterates over the stream, and after the command has ended: as long as this
   * object exists, over HTTP for a minute. Needs `logLimit`; rejects with {@link OptionError} without.
   */
  getLogs<F extends Encoding = 'utf8'>(options?: LogOptions<F>): Promise<ProcessLogs<F>>
  /** Lines of the output so far, as {@link Process.getLogLines} returns them. Needs `logLimit`, as `getLogs` does. */
  getLogLines<F extends Encoding = 'utf8'>(options?: LogLinesOptions<F>): Promise<LogLines<F>>
  /** Finds out whether a program of the command waits for input, as {@link Process.waiting} does. */
  waiting(): Promise<ProcessWaiting | null>
  /** Waits until a program of the command waits for input, as {@link Process.waitForInput} does. */
  waitForInput(options?: WaitOptions): Promise<ProcessWaiting>
  /**
   * Waits for the first of several things, as {@link Process.waitFor} does: for the end of the command too. `log` and `idle`
   * need `logLimit`.
   */
  waitFor(options?: WaitForOptions): Promise<WaitEnd>
  /**
   * Iterates over the events. Rejects only with STREAM_LOCKED, if `result` was awaited first.
   */
  [Symbol.asyncIterator](): AsyncIterableIterator<ExecEvent<E, L>>
  /**
   * Iterates over the lines of the output as text, without `\n` or `\r\n`, including an unterminated last line. If the
   * run fails, the iteration throws its error after the last line.
   *
   * Throws {@link OptionError}.
   */
  lines(options?: SourceOptions): AsyncIterableIterator<string>
  /**
   * Returns the output as a stream of bytes. If the run fails, the stream fails with its error. `cancel()` kills the
   * command.
   *
   * Throws {@link OptionError}.
   */
  toReadableStream(options?: SourceOptions): ReadableStream<Uint8Array>
  /** Kills the command if it is still running, and resolves when it has ended. */
  [Symbol.asyncDispose](): Promise<void>
}

/**
 * The run of a template, like ``sandbox.$`ls ${path}` ``: a stream that can also be awaited. It settles like
 * {@link ExecStream.result}, so it never causes an unhandled rejection.
 *
 * If you neither await nor read a run, it blocks once 4 MiB of its output are waiting. An async function that returns a
 * run awaits it.
 */
export type ShellRun<E extends Encoding = 'utf8', L extends boolean = false> = ExecStream<E, L> &
  PromiseLike<ExecResult<E, L>>
