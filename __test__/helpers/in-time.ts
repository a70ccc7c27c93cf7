/** Commands that a time limit ends, and that must have started by then. */
import { measure } from './remeasure.js'

/** A limit within which every command has started, in ms. */
const LONGEST_MS = 2000

/**
 * Runs something with a time limit. If the limit came before the command had started, nothing was tested: it runs again
 * with twice the time, and reports that.
 */
export function inTime<T>(
  limit: number,
  run: (limit: number) => Promise<T>,
  hasBegun: (end: T) => boolean | Promise<boolean>,
): Promise<T> {
  const limitOf = (attempt: number) => limit * 2 ** (attempt - 1)
  const attempts = Math.ceil(Math.log2(LONGEST_MS / limit)) + 1
  return measure(
    (attempt) => run(limitOf(attempt)),
    async (end) =>
      (await hasBegun(end)) ? undefined : 'a command had not begun when its time limit ended it',
    attempts,
  )
}
