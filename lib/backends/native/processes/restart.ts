/**
 * When a service is restarted, and after which delay: decisions without effects.
 */
import type { NativeProcess } from '../../../boundary/index.js'

/** The longest time between two starts. */
const LONGEST_DELAY_MS = 30_000
/** After this time, a failure counts as the first one again. */
const STABLE_MS = 60_000

/**
 * Whether the end of a process is a failure. A kill, a timeout and the end of the session are requested ends, not failures.
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

/** Milliseconds to wait after this many failures in a row: each doubles them. */
export function restartDelay(first: number, failures: number): number {
  return Math.max(first, Math.min(first * 2 ** (failures - 1), LONGEST_DELAY_MS))
}
