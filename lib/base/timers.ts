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
