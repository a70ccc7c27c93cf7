/**
 * Decides when a service is restarted, and after which delay. No effects.
 */
import type { NativeProcess } from '../../../boundary/index.js'

/** The longest time between two starts. */
const LONGEST_DELAY_MS = 30_000
/** After this time, the next failure counts as the first again. */
const STABLE_MS = 60_000

/**
 * Whether the end of a process is a failure. A kill, a timeout and the end of the session are requested, so not failures.
 */
export function hasFailed({ state, reason, exitCode }: NativeProcess): boolean {
  if (state === 'crashed') return true
  if (reason === 'exit') return exitCode !== 0
  return reason === 'signal' || reason === 'oom'
}

/** Consecutive failures, including this one. */
export function countFailures(before: number, { startedAt, endedAt }: NativeProcess): number {
  const stable = endedAt !== undefined && endedAt - startedAt >= STABLE_MS
  return stable ? 1 : before + 1
}

/** Milliseconds to wait after this many consecutive failures: each doubles the delay. */
export function restartDelay(first: number, failures: number): number {
  return Math.max(first, Math.min(first * 2 ** (failures - 1), LONGEST_DELAY_MS))
}
