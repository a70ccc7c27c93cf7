/** Commands in the foreground of a session: their results, and their events. */

import type { Encoding, EnvChanges, Input, Output, Signal, SignalName } from './command.js'
import type { AbortError, OptionError, SandboxError } from './errors.js'
import type { Denial } from './isolation.js'
import type { Sandbox } from './sandbox.js'
import type { Session } from './session.js'

/** Options of {@link Session.exec} and {@link Session.execStream}; where they differ, `result` is that of the stream. */
export interface SessionExecOptions<E extends Encoding = 'utf8', L extends boolean = false> {
  /**
   * Directory for this command only; the session's own is restored afterwards. A relative path is resolved against
   * the session's. When it does not exist, exec rejects with CWD_NOT_FOUND and nothing runs.
   */
  cwd?: string | URL
  /** Environment changes for this command only; restored exactly afterwards. */
  env?: EnvChanges
  /**
   * Milliseconds the command may run, 0 to 2147483647; 0 = no limit. A fraction is rounded up. On timeout, the
   * command and its foreground processes are killed, and exec rejects with COMMAND_TIMEOUT. Default: the sandbox's.
   */
  timeout?: number
  /**
   * Aborting cancels the command: a queued one never runs, a running one is killed. exec then rejects with an
   * {@link AbortError}. No effect after the end.
   */
  signal?: AbortSignal
  /** The first signal that a timeout or an abort sends. Default: the sandbox's. */
  killSignal?: Signal
  /** Milliseconds between that signal and SIGKILL, 0 to 2147483647. Default: the sandbox's. */
  forceKillAfterDelay?: number
  /**
   * Standard input. Default: none, the command reads end of file. Items of an iterable are written as the command
   * takes them; when the command ends first, the iterable is closed. When the iterable throws, the command is killed and
   * exec rejects with that error.
   */
  input?: Input
  /** 'utf8' gives strings, 'buffer' gives bytes in stdout, stderr and all. Default: 'utf8'. */
  encoding?: E
  /**
   * Gives the command one pipe for both streams. Everything then arrives as stdout, in the exact order, and stderr is
   * empty. Without it each stream has its own pipe, and their order is only the order in which they were read.
   * Default: false.
   */
  mergeOutput?: boolean
  /**
   * Gives stdout, stderr and all as arrays of lines, without their `\n` or `\r\n`. A final newline ends the last line and
   * begins no other, so no output is no line. A line that marks omitted output is an item as well. Refused with encoding
   * 'buffer'. The events of a stream stay text. Default: false.
   */
  lines?: L
  /**
   * Whether to remove one final `\n` or `\r\n` from stdout, stderr and all. With `lines`, which have no ends, false keeps
   * the end of each line. Default: false.
   */
  stripFinalNewline?: boolean
  /**
   * Bytes kept per stream, 0 to Number.MAX_SAFE_INTEGER. Of more output, the head and the tail are kept, and the command
   * continues. A line like `[48,694 bytes omitted]` marks the place, and `truncated` has the number of missing bytes. The
   * events of a stream are complete. Default: the sandbox's.
   */
  maxBuffer?: number
  /** Whether an unsuccessful command rejects, with COMMAND_FAILED. Default: false. */
  check?: boolean
  /**
   * Prints the command, its duration and its end on standard error of this program. Default: whether `NACRE_DEBUG` is
   * `1` in its environment.
   */
  verbose?: boolean
  /**
   * Called with each piece of output as text while the command runs, in order of arrival; characters are never split.
   * The command waits when this is slow. If a callback up to `onComplete` throws, a running command is
   * killed and exec rejects with that exception. Promises returned by callbacks are not awaited.
   */
  onOutput?: (stream: 'stdout' | 'stderr', data: string) => void
  /** The same for standard output alone. */
  onStdout?: (data: string) => void
  /** The same for standard error alone. */
  onStderr?: (data: string) => void
  /** The same line by line, without `\n` or `\r\n`. An incomplete line at the end counts. */
  onLine?: (line: string, stream: 'stdout' | 'stderr') => void
  /** Called when the command starts to run, with the pid of the session's shell. */
  onStart?: (start: { command: string; pid: number; sessionId: string }) => void
  /** Called with the result just before exec resolves. */
  onComplete?: (result: ExecResult<E, L>) => void
  /** Called with the error just before exec rejects, except for an {@link OptionError}. What it throws is logged. */
  onError?: (error: unknown) => void
}

/** Options of {@link Sandbox.exec} and {@link Sandbox.execStream}. */
export interface ExecOptions<E extends Encoding = 'utf8', L extends boolean = false>
  extends SessionExecOptions<E, L> {
  /** The session to run in. Default: 'default', which always exists. Unknown: SESSION_NOT_FOUND. */
  sessionId?: string
}

/** The result of a command. */
export interface ExecResult<E extends Encoding = 'utf8', L extends boolean = false> {
  /** The command ended by itself with code 0. */
  success: boolean
  /** null when the command has no exit code, because a signal ended it or it never ran. */
  exitCode: number | null
  /** The signal that ended the command, if one did. Real-time signals are called 'SIGRTMIN' and 'SIGRTMIN+1' to '+30'. */
  signal: SignalName | null
  stdout: Output<E, L>
  stderr: Output<E, L>
  /**
   * stdout and stderr in the order in which they were read. That is exact only with `mergeOutput`. Computed at
   * the first read.
   */
  all: Output<E, L>
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
  /**
   * Bytes missing in the middle of each stream because of `maxBuffer`; null when both are complete. Text marks the
   * place with a line of its own, like `[48,694 bytes omitted]`, between whole lines where there are any. Bytes have no
   * mark.
   */
  truncated: null | { stdout: number; stderr: number }
  /**
   * Where they are missing: the number of bytes kept in front of the gap, at which text has its mark. 0 for a complete
   * stream; null when both are complete.
   */
  truncatedAt: null | { stdout: number; stderr: number }
  /** The shell was replaced (after `exec` or `kill -9 $$`), with its state after the last finished command. */
  sessionRestarted: boolean
  /**
   * Connections that `isolation.network` refused while the command ran, at most 100. Processes in the background of the
   * same session count, too.
   */
  denials: Denial[]
}

/**
 * The events of a command, in order: `start`, output, and at last exactly one `complete` or `error`. A command that could
 * not start has only the `error`. `timestamp` is when it happened, as ISO 8601.
 */
export type ExecEvent<E extends Encoding = 'utf8', L extends boolean = false> = { timestamp: string } & (
  | {
      type: 'start'
      command: string
      /** The pid of the session's shell. */
      pid: number
      sessionId: string
    }
  | {
      type: 'stdout' | 'stderr'
      /** Never empty. In text, characters are never split. Output of the same millisecond is one event. */
      data: Output<E>
      /**
       * The offset in this stream, in bytes, behind this event. For text too, it counts the bytes that the command
       * wrote.
       */
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
       * The rejection of {@link ExecStream.result}. When `input` or a callback threw, the exception itself.
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
 * - **Backpressure.** At most 4 MiB wait for the reader (over HTTP, 1 MiB in the server). Beyond that the command's pipe is
 *   not read, and when the pipe is full the command blocks. Nothing is lost, memory stays bounded, and the session waits
 *   with the command. A command that is being killed blocks for at most 0.1 s: output that its reader has not taken by then
 *   is only in the result.
 * - **Leaving** the iteration early (`break`, an exception, `cancel`) kills the command and its foreground
 *   processes, and waits until they have ended. The session continues.
 * - **Not reading** at all is fine when `result` is awaited: output beyond these 4 MiB is then dropped, except for what
 *   `maxBuffer` keeps in the result. Starting to read after that throws STREAM_LOCKED.
 */
export interface ExecStream<E extends Encoding = 'utf8', L extends boolean = false> {
  /**
   * Resolves to the same result as `exec`, and rejects with the same error, but is never an unhandled rejection by itself.
   * Read first: awaited within a loop that still has output to read, it may never settle.
   */
  readonly result: Promise<ExecResult<E, L>>
  /**
   * Kills the command and its foreground processes: `signal` (default: `killSignal`), then SIGKILL after
   * `forceKillAfterDelay`. Resolves when all have ended: true when a kill or an abort ended the command, otherwise false. A
   * later call with SIGKILL cuts the delay short.
   *
   * A kill is not an error: the stream ends with `complete`, and `result` has `signal` and `isCanceled`. A queued command
   * never runs, and its `signal` and `exitCode` are null. Rejects with {@link OptionError}.
   */
  kill(signal?: Signal): Promise<boolean>
  /** The events. Rejects only with STREAM_LOCKED, when `result` was awaited first and the output has been dropped. */
  [Symbol.asyncIterator](): AsyncIterableIterator<ExecEvent<E, L>>
  /**
   * The lines of the output as text, without their `\n` or `\r\n`, including an incomplete last one. After the last line
   * of a failed run, the iteration throws its error.
   *
   * Throws {@link OptionError}.
   */
  lines(options?: SourceOptions): AsyncIterableIterator<string>
  /**
   * The bytes of the output. A failed run fails the stream with its error; `cancel()` kills the command.
   *
   * Throws {@link OptionError}.
   */
  toReadableStream(options?: SourceOptions): ReadableStream<Uint8Array>
  /** Kills the command if it still runs, and resolves when it has ended. */
  [Symbol.asyncDispose](): Promise<void>
}

/**
 * The run of a template, like ``sandbox.$`ls ${path}` ``: a stream that can also be awaited. It resolves and rejects as
 * {@link ExecStream.result} does, so a run that nothing awaits is never an unhandled rejection.
 *
 * A run that is neither awaited nor read blocks once 4 MiB of its output are waiting. An async function that returns a run
 * awaits it.
 */
export type ShellRun<E extends Encoding = 'utf8', L extends boolean = false> = ExecStream<E, L> &
  PromiseLike<ExecResult<E, L>>
