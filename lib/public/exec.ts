/** Commands in the foreground of a session: as a whole, and as events. */

import type { Encoding, EnvChanges, Input, Output, Signal, SignalName } from './command.js'
import type { AbortError, OptionError, SandboxError } from './errors.js'
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
  /**
   * Gives the command one pipe for both streams. Everything then arrives as stdout, in the exact order, and stderr is
   * empty. Without it each stream has its own pipe, and the order between the two is only that in which they were read.
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
   * Bytes kept per stream, 0 to Number.MAX_SAFE_INTEGER. Beyond it the head and the tail are kept and the command
   * runs on; a line like `[48,694 bytes omitted]` marks the place, and `truncated` says how much is missing. Default: the sandbox's. The events of a stream have everything.
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
   * The command waits when this is slow. If a callback up to `onComplete` throws, the command is killed when
   * it still runs and exec rejects with what was thrown. Promises returned by callbacks are not awaited.
   */
  onOutput?: (stream: 'stdout' | 'stderr', data: string) => void
  /** The same for standard output alone. */
  onStdout?: (data: string) => void
  /** The same for standard error alone. */
  onStderr?: (data: string) => void
  /** The same line by line, without `\n` or `\r\n`. What is left without an end is the last line. */
  onLine?: (stream: 'stdout' | 'stderr', line: string) => void
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
  /** The session to run in. Default: 'default', which exists by itself. Unknown: SESSION_NOT_FOUND. */
  sessionId?: string
}

/** What became of a command. */
export interface ExecResult<E extends Encoding = 'utf8', L extends boolean = false> {
  /** The command ended by itself with code 0. */
  success: boolean
  /** null when the command did not get to an exit code. */
  exitCode: number | null
  /** The signal that ended the command, if one did. Real-time signals are called 'SIGRTMIN' and 'SIGRTMIN+1' to '+30'. */
  signal: SignalName | null
  stdout: Output<E, L>
  stderr: Output<E, L>
  /**
   * stdout and stderr in the order in which they were read. That is exact only with `mergeOutput`. Put together at the
   * first read.
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
   * Bytes that are missing in the middle of each stream, because of `maxBuffer`; null when nothing is. Text shows the
   * place with a line of its own, like `[48,694 bytes omitted]`, between whole lines where there are any. Bytes are not
   * marked: they are missing at `offset`, in a stream of which some are missing.
   */
  truncated: null | { stdout: number; stderr: number; offset?: number }
  /** The shell had to be brought back (after `exec`, `kill -9 $$`), with its state after the last finished command. */
  sessionRestarted: boolean
}

/**
 * What happens to a command, in order: `start`, output, and then exactly one `complete` or `error`, which is the last. A
 * command that could not start has the `error` alone. `timestamp` is when it happened, as ISO 8601.
 */
export type ExecEvent<E extends Encoding = 'utf8', L extends boolean = false> = { timestamp: string } & (
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
      signal: SignalName | null
      /** The same object that {@link ExecStream.result} resolves with. */
      result: ExecResult<E, L>
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
 * - **Backpressure.** At most 4 MiB wait for the reader (over HTTP, 1 MiB in the server); then the command's pipe is left
 *   alone, and when that is full the command blocks. Nothing is lost, memory stays flat, and the session waits with the command. A command that is being
 *   killed is not held back for more than 0.1 s: what its reader does not take by then is only in the result.
 * - **Leaving** the iteration early (`break`, an exception, `cancel`) kills the command with everything it started in
 *   the foreground, and waits until it is gone. The session lives on.
 * - **Not reading** at all is fine when `result` is awaited: output beyond these 4 MiB is then dropped, but for what
 *   `maxBuffer` keeps in the result. To begin to read later than that throws STREAM_LOCKED.
 */
export interface ExecStream<E extends Encoding = 'utf8', L extends boolean = false> {
  /**
   * What exec would have given. Rejects as exec does, but is never an unhandled rejection by itself. Reading comes
   * first: within a loop that still has output to read, this may wait for that output for ever.
   */
  readonly result: Promise<ExecResult<E, L>>
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
  [Symbol.asyncIterator](): AsyncIterableIterator<ExecEvent<E, L>>
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
