/**
 * What a failure is on the command line: one line on the standard error, and an exit code.
 */
import { CommanderError } from 'commander'
import { OptionError, SandboxError } from '../base/errors.js'
import { colorsOf } from './terminal.js'

/** When what was asked for could not be done. */
const FAILED = 1
/** A bad use: nothing has been done. */
const BAD_USE = 2
/** As timeout(1) has it. */
export const TIMED_OUT = 124

export function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : BAD_USE
  if (error instanceof OptionError) return BAD_USE
  if (error instanceof SandboxError && error.code === 'COMMAND_TIMEOUT') return TIMED_OUT
  return FAILED
}

/** The exit code for the end of a command: its own, or as shells tell a signal, 128 and its number. */
export function exitCodeOfEnd(exitCode: number | null, signal: number | undefined): number {
  if (exitCode !== null) return exitCode
  return signal === undefined ? FAILED : 128 + signal
}

/** Says what went wrong; as JSON for programs. What commander has to say it says itself. */
export function report(error: unknown, json: boolean): void {
  if (error instanceof CommanderError) return
  // What the command printed has been printed.
  const { code, message: whole, shortMessage: message = whole } = error as Error & Partial<SandboxError>
  if (json) process.stderr.write(`${JSON.stringify({ error: { code: code ?? 'ERROR', message } })}\n`)
  else process.stderr.write(`${colorsOf(process.stderr).red('nacre:')} ${message ?? String(error)}\n`)
}
