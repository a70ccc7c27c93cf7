/**
 * The state of a job in words.
 */

import type { JobInfo, JobStatus } from '../../calls/index.js'
import { printTable, short, timeText } from '../table.js'
import { colorsOf } from '../terminal.js'

type Colors = ReturnType<typeof colorsOf>

/** Prints jobs with their start, how long they took so far, their state, and their name or command. */
export function printJobs(jobs: JobInfo[]): Promise<void> {
  const colors = colorsOf(process.stdout)
  const rows = jobs.map(({ jobId, startTime, status, processName, command }) => {
    const time =
      status.state === 'running' && startTime !== null ? Date.now() - startTime.getTime() : status.duration
    return [
      jobId,
      colors.dim(startTime?.toISOString() ?? '-'),
      time === null ? '-' : timeText(time),
      describeStatus(status, colors),
      short(processName ?? command ?? ''),
    ]
  })
  return printTable(['ID', 'STARTED', 'TIME', 'STATE', 'NAME'], rows)
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
