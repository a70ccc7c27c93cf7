/** Commands that a time limit ends, and that must have got somewhere by then. */

/** A limit at which every command has got there. */
const LONGEST_MS = 2000

/**
 * Runs something with a time limit; when it had not got to where it has to be by then, on a machine that was busy with
 * something else, again with twice the time.
 */
export async function inTime<T>(
  limit: number,
  run: (limit: number) => Promise<T>,
  hasBegun: (end: T) => boolean | Promise<boolean>,
): Promise<T> {
  const end = await run(limit)
  return limit >= LONGEST_MS || (await hasBegun(end)) ? end : inTime(2 * limit, run, hasBegun)
}
