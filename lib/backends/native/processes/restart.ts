/**
 * When a service is started again, and how long that is put off: decisions without effects.
 */
import type { NativeProcess } from '../../../boundary/index.js'

/** The longest time between two starts. */
const LONGEST_DELAY_MS = 30_000
/** A service that has run for so long had no trouble starting. */
const STABLE_MS = 60_000

/**
 * Whether the end of a process is a failure. One that somebody asked for, by a kill, a timeout or the end of its
 * session, is none.
 */
export function hasFailed({ status, reason, exitCode }: NativeProcess): boolean {
  if (status === 'error') return true
  if (reason === 'exit') return exitCode !== 0
  return reason === 'signal' || reason === 'oom'
}

/** Failures in a row, this one included. */
export function countFailures(before: number, { startedAt, endedAt }: NativeProcess): number {
  const stable = endedAt !== undefined && endedAt - startedAt >= STABLE_MS
  return stable ? 1 : before + 1
}

/** Milliseconds to wait after so many failures in a row: twice as long each time. */
export function restartDelay(first: number, failures: number): number {
  return Math.max(first, Math.min(first * 2 ** (failures - 1), LONGEST_DELAY_MS))
}
