/** Waits for a condition: the only way in which tests wait. */
import { setTimeout as sleep } from 'node:timers/promises'

/** Checks every 5 ms until the result is not undefined; fails after `limit` ms with the message of `complain`. */
export async function until<T>(
  ask: () => T | undefined | Promise<T | undefined>,
  complain: () => string,
  limit = 30_000,
): Promise<T> {
  const deadline = performance.now() + limit
  for (;;) {
    const answer = await ask()
    if (answer !== undefined) return answer
    if (performance.now() > deadline) throw new Error(`after ${limit} ms: ${complain()}`)
    await sleep(5)
  }
}

/** Waits until a condition holds; a failure shows its source. */
export async function holds(condition: () => unknown): Promise<void> {
  await until(
    async () => (await condition()) || undefined,
    () => `this does not hold: ${condition}`,
  )
}

/**
 * Blocks the event loop until the condition holds, and a moment longer, in which the engine prepares its events. So a test
 * can act before JavaScript receives them.
 */
export function blockUntil(holds: () => boolean, limit = 5000): void {
  const cell = new Int32Array(new SharedArrayBuffer(4))
  const deadline = performance.now() + limit
  while (!holds()) {
    if (performance.now() > deadline) throw new Error(`after ${limit} ms: the condition does not hold`)
    Atomics.wait(cell, 0, 0, 1)
  }
  Atomics.wait(cell, 0, 0, 20)
}
