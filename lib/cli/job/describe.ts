/**
 * The state of a job in words, and as an exit code.
 */

import { signalNumber } from '../../base/signals.js'
import type { JobInfo, JobStatus } from '../../calls/index.js'
import { exitCodeOfEnd } from '../failure.js'
import { colorsOf } from '../terminal.js'

type Colors = ReturnType<typeof colorsOf>

/** A line shows this many characters of a command. */
const MOST_CHARACTERS = 60

/** A job on a line of standard output: its id, its start, its state, and its name or command. */
export function describeJob({ jobId, startedAt, status, processName, command }: JobInfo): string {
  const colors = colorsOf(process.stdout)
  const text = processName ?? (command ?? '').replace(/\s+/g, ' ')
  const short = text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text
  const start = colors.dim(startedAt?.toISOString() ?? '-')
  return [jobId, start, describeStatus(status, colors), short].join('  ')
}

/** "exited 3 (timeout)", "killed by SIGSEGV", "running", "crashed (reboot)". */
export function describeStatus(status: JobStatus, colors: Colors): string {
  const { state, exitCode, signal, reason, alive } = status
  const why = reason === null || reason === 'exit' || reason === 'signal' ? '' : ` (${reason})`
  const left = alive && state === 'exited' ? ', something of it runs on' : ''
  if (state === 'running') return colors.cyan('running')
  if (state === 'crashed') return colors.red(`crashed${why}`)
  if (signal !== null) return colors.red(`killed by ${signal}${why}`) + left
  return (exitCode === 0 ? colors.green : colors.red)(`exited ${exitCode}${why}`) + left
}

/** The exit code of its command. A crash has no exit code, so it counts as a failure. */
export function exitCodeOfJob({ exitCode, signal }: JobStatus): number {
  return exitCodeOfEnd(exitCode, signal === null ? undefined : signalNumber(signal))
}
