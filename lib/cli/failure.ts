/**
 * Failures on the command line: one line on standard error, and an exit code.
 */
import { type Command, CommanderError } from 'commander'
import { OptionError, SandboxError } from '../base/errors.js'
import { signalNumber } from '../base/signals.js'
import { withFlags } from './flags.js'
import { colorsOf, printableLines } from './terminal.js'

/** The exit code when something could not be done. */
const FAILED = 1
/** The exit code of a usage error: nothing has run. */
const USAGE_ERROR = 2
/** The exit code after a timeout, as with timeout(1). */
export const TIMED_OUT = 124

export function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : USAGE_ERROR
  if (error instanceof OptionError) return USAGE_ERROR
  if (error instanceof SandboxError && error.code === 'COMMAND_TIMEOUT') return TIMED_OUT
  return FAILED
}

/** The exit code for the end of a command: its own, or as in shells, 128 and the number of its signal. */
export function exitCodeOfEnd(exitCode: number | null, signal: string | null): number {
  if (exitCode !== null) return exitCode
  const number = signal === null ? undefined : signalNumber(signal)
  return number === undefined ? FAILED : 128 + number
}

/** Prints an error of a verb, as JSON for programs. Commander prints its own errors. */
export function report(error: unknown, json: boolean, verb: Command | undefined): void {
  if (error instanceof CommanderError) return
  // `message` repeats stderr of the command, which has been printed already.
  const { code, message: whole, shortMessage = whole } = error as Error & Partial<SandboxError>
  const message = verb !== undefined && isAboutOptions(error) ? withFlags(shortMessage, verb) : shortMessage
  if (json) process.stderr.write(`${JSON.stringify({ error: { code: code ?? 'ERROR', message } })}\n`)
  else
    process.stderr.write(
      `${colorsOf(process.stderr).red('nacre:')} ${printableLines(message ?? String(error))}\n`,
    )
}

/** Whether an option of the API was refused, or cannot be used on this machine: an address to listen on, a directory. */
function isAboutOptions(error: unknown): boolean {
  if (error instanceof OptionError) return true
  const { code, syscall } = error as NodeJS.ErrnoException
  return syscall === 'listen' || code === 'STATE_DIR_UNAVAILABLE'
}
