/** Commands: their environment, their input, and the types of their output. */

import { word } from '../schema/reply.js'
import type { SessionExecOptions, ShellRun } from './exec.js'

/**
 * A command: shell text (`string`), which bash parses, or an argument list (`string[]`), which no shell parses. The
 * first item of a list is the program, looked up on the session's PATH; the others are its arguments.
 *
 * Rejected with INVALID_COMMAND: blank text, an empty list, a list whose program is '', and NUL anywhere.
 */
export type Command = string | readonly string[]

/**
 * A value in a template. A list is one word per item, and an empty list is no word. Values are quoted, never parsed.
 */
export type ShellValue = string | number | bigint | ReadonlyArray<string | number | bigint>

/**
 * Runs a template as shell text, and starts immediately like `execStream`. Await the run for its result, or read its
 * output.
 *
 * ```js
 * const { stdout } = await sandbox.$`git show ${ref} -- ${paths}`
 * const $ = sandbox.$.with({ check: true })
 * for await (const line of $`make ${target}`.lines()) console.log(line)
 * ```
 *
 * Each value is quoted, so do not write quotes around it. Backslashes stay as written. Throws OptionError, with
 * INVALID_COMMAND for a value of another type. `Scope` has the options that only a sandbox takes.
 */
export interface ShellTag<
  Scope extends object = object,
  E extends Encoding = 'utf8',
  L extends boolean = false,
> {
  (strings: TemplateStringsArray, ...values: ShellValue[]): ShellRun<E, L>
  /** Returns a tag with these options, merged over the options of this tag. */
  with<F extends Encoding = E, M extends boolean = L>(
    options: SessionExecOptions<F, M> & Scope,
  ): ShellTag<Scope, F, M>
}

/** The name of a signal. The names are those of `NodeJS.Signals`, but do not need `@types/node`. */
export type SignalName =
  | 'SIGABRT'
  | 'SIGALRM'
  | 'SIGBREAK'
  | 'SIGBUS'
  | 'SIGCHLD'
  | 'SIGCONT'
  | 'SIGFPE'
  | 'SIGHUP'
  | 'SIGILL'
  | 'SIGINFO'
  | 'SIGINT'
  | 'SIGIO'
  | 'SIGIOT'
  | 'SIGKILL'
  | 'SIGLOST'
  | 'SIGPIPE'
  | 'SIGPOLL'
  | 'SIGPROF'
  | 'SIGPWR'
  | 'SIGQUIT'
  | 'SIGSEGV'
  | 'SIGSTKFLT'
  | 'SIGSTOP'
  | 'SIGSYS'
  | 'SIGTERM'
  | 'SIGTRAP'
  | 'SIGTSTP'
  | 'SIGTTIN'
  | 'SIGTTOU'
  | 'SIGUNUSED'
  | 'SIGURG'
  | 'SIGUSR1'
  | 'SIGUSR2'
  | 'SIGVTALRM'
  | 'SIGWINCH'
  | 'SIGXCPU'
  | 'SIGXFSZ'

export const signalName = word<SignalName>()

/** A signal by name ('SIGTERM') or number (1 to 64). 0 is rejected. */
export type Signal = SignalName | number

/**
 * Changes to an environment: a string without NUL sets a variable, `undefined` unsets it. Names match
 * `[A-Za-z_][A-Za-z0-9_]*`.
 */
export type EnvChanges = Record<string, string | undefined>

/** The encoding of output: 'utf8' for text (invalid bytes become U+FFFD), 'buffer' for bytes. */
export type Encoding = 'utf8' | 'buffer'

/**
 * The type of output for an encoding, with or without `lines`. At run time, bytes are a Buffer, which is a Uint8Array.
 */
export type Output<E extends Encoding, L extends boolean = false> = E extends 'buffer'
  ? Uint8Array
  : L extends true
    ? string[]
    : string

/** The standard input of a command. Text is encoded as UTF-8. */
export type Input =
  | string
  | Uint8Array
  | AsyncIterable<string | Uint8Array>
  | ReadableStream<string | Uint8Array>

/** Receives engine diagnostics. `console` is a valid logger. */
export interface Logger {
  debug(message: string): void
  info(message: string): void
  warn(message: string): void
  error(message: string): void
}
