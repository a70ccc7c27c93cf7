/**
 * Timers and clocks as they were when nacre was loaded.
 *
 * Test runners can replace the global ones while a suite runs: `vi.useFakeTimers()`, `jest.useFakeTimers()`. Time then stops
 * for the tested program, but not for the processes that nacre waits for. All waits take their timers from here, also in browsers.
 */
export const { setTimeout, clearTimeout, setInterval, clearInterval } = globalThis

const original = globalThis.performance

/** The monotonic clock. */
export const performance = { now: original.now.bind(original) }

const { setImmediate } = globalThis as { setImmediate?: typeof globalThis.setImmediate }

/** Resolves in a later turn of the event loop. Browsers have only timers for that. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (setImmediate === undefined) setTimeout(resolve, 0)
    else setImmediate(resolve)
  })
}
