/**
 * Runs something with a short time limit, which ends a command that must have begun by then. A limit that came before the
 * command had begun tested nothing: it runs again with twice the limit.
 */
export async function inTime<T>(
  limit: number,
  run: (limit: number) => Promise<T>,
  hasBegun: (end: T) => boolean,
): Promise<T> {
  const end = await run(limit)
  return hasBegun(end) || limit > 5000 ? end : inTime(2 * limit, run, hasBegun)
}
