/**
 * Timers and clocks as they were when nacre was loaded, or before a test runner replaced them.
 *
 * Test runners can replace the global ones while a suite runs: `vi.useFakeTimers()`, `jest.useFakeTimers()`. Time then stops
 * for the tested program, but not for the processes that nacre waits for. All waits take their timers from here, also in browsers.
 */

/** Fake timers, those of @sinonjs/fake-timers in vitest and Jest, keep what they replace: nacre may be loaded after them. */
const { clock } = globalThis.setTimeout as { clock?: Record<string, unknown> }

function original<
  K extends 'setTimeout' | 'clearTimeout' | 'setInterval' | 'clearInterval' | 'setImmediate' | 'performance',
>(name: K): (typeof globalThis)[K] {
  return (clock?.[`_${name}`] as (typeof globalThis)[K] | undefined) ?? globalThis[name]
}

export const setTimeout = original('setTimeout')
export const clearTimeout = original('clearTimeout')
export const setInterval = original('setInterval')
export const clearInterval = original('clearInterval')

const real = original('performance')

/** The monotonic clock. */
export const performance = { now: real.now.bind(real) }

const setImmediate = original('setImmediate') as typeof globalThis.setImmediate | undefined

/** Resolves in a later turn of the event loop. Browsers have only timers for that. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (setImmediate === undefined) setTimeout(resolve, 0)
    else setImmediate(resolve)
  })
}
