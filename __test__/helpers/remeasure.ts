/**
 * Repeats measurements that something other than nacre can spoil.
 *
 * No test is run again because an assertion failed. A measurement is repeated if it was spoiled: the kernel, the runtime or
 * the measurement itself reports a cause unrelated to nacre. Each repetition is printed with its cause, and
 * scripts/test.mjs counts them. Without such a cause the first value counts, and so does the last of three. A stall of the
 * event loop is always measured again: a virtual machine may be stopped for that long without any report.
 */

/** Maximum number of measurements. A fault of nacre shows every time. */
const ATTEMPTS = 3

/**
 * Takes a measurement, and repeats it if `spoiledBy` names a cause. `attempt` counts from 1. Resolves to the value that
 * counts, which the caller then checks.
 */
export async function measure<T>(
  take: (attempt: number) => Promise<T>,
  spoiledBy: (value: T) => string | undefined | Promise<string | undefined>,
  attempts = ATTEMPTS,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    const value = await take(attempt)
    const cause = attempt < attempts ? await spoiledBy(value) : undefined
    if (cause === undefined) return value
    console.warn(`measured again: ${cause}`)
  }
}
