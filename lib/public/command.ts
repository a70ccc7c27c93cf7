/** Commands, their environment and input, and the form of their output. */

import type { SessionExecOptions, ShellRun } from './exec.js'

/**
 * Shell text (`string`), which bash parses, or an argument list (`string[]`), which no shell ever parses: the first
 * item is the program (looked up on the session's PATH), the others are its arguments as they are.
 *
 * Refused with INVALID_COMMAND: blank text, an empty list, a list whose program is '', anything with a NUL.
 */
export type Command = string | readonly string[]

/** A value of a template: one word, or one word each. It is quoted, and never parsed. An empty list is no word. */
export type ShellValue = string | number | bigint | ReadonlyArray<string | number | bigint>

/**
 * Starts a template as shell text, immediately, as `execStream` does. Await the run for its result, or read its output.
 *
 * ```js
 * const { stdout } = await sandbox.$`git show ${ref} -- ${paths}`
 * const $ = sandbox.$.with({ check: true })
 * for await (const line of $`make ${target}`.lines()) console.log(line)
 * ```
 *
 * Each value is quoted, so write no quotes around it. Backslashes stay as written. Throws OptionError, with
 * INVALID_COMMAND for a value of another kind. `Scope` has the options that only a sandbox takes.
 */
export interface ShellTag<
  Scope extends object = object,
  E extends Encoding = 'utf8',
  L extends boolean = false,
> {
  (strings: TemplateStringsArray, ...values: ShellValue[]): ShellRun<E, L>
  /** A tag with these options, over those that this one has. */
  with<F extends Encoding = E, M extends boolean = L>(
    options: SessionExecOptions<F, M> & Scope,
  ): ShellTag<Scope, F, M>
}

/** The name of a signal: the same names as `NodeJS.Signals` has, without a need for `@types/node`. */
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

/** A signal by its name ('SIGTERM') or its number (1 to 64). 0 is refused. */
export type Signal = SignalName | number

/** Changes to an environment: a string sets (anything but NUL), `undefined` unsets. Names: `[A-Za-z_][A-Za-z0-9_]*`. */
export type EnvChanges = Record<string, string | undefined>

/** The form of output: text (invalid bytes become U+FFFD) or bytes. */
export type Encoding = 'utf8' | 'buffer'

/**
 * The type of output for an encoding, and with `lines` or without. At run time bytes are a Buffer, which is a Uint8Array.
 */
export type Output<E extends Encoding, L extends boolean = false> = E extends 'buffer'
  ? Uint8Array
  : L extends true
    ? string[]
    : string

/** What a command can read from its standard input. Text is encoded as UTF-8. */
export type Input =
  | string
  | Uint8Array
  | AsyncIterable<string | Uint8Array>
  | ReadableStream<string | Uint8Array>

/** Receives engine diagnostics. `console` fits. */
export interface Logger {
  debug(message: string): void
  info(message: string): void
  warn(message: string): void
  error(message: string): void
}
