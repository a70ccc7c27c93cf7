/** How long the event loop stood still while something ran. */
import { readFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setImmediate } from 'node:timers/promises'

/** The longest stall that a test may see, in ms. */
export const MAX_STALL_MS = 20

/** Begins to watch; the function it returns ends that and gives the longest stall in ms. */
export function watchStalls(): () => number {
  const delay = monitorEventLoopDelay({ resolution: 1 })
  const waited = waitedForCpu()
  delay.enable()
  return () => {
    delay.disable()
    return Math.max(0, delay.max / 1e6 - (waitedForCpu() - waited))
  }
}

/** Runs `action` and gives its value and the longest stall meanwhile in ms. */
export async function longestStall<T>(action: () => Promise<T>): Promise<{ value: T; stall: number }> {
  const stop = watchStalls()
  await setImmediate()
  try {
    const value = await action()
    await setImmediate()
    return { value, stall: stop() }
  } finally {
    stop()
  }
}

/**
 * Milliseconds that the main thread was ready to run and had no processor, since it started (proc(5), schedstat).
 * That is the doing of the other programs on the machine, and counts for nobody's stall.
 */
function waitedForCpu(): number {
  return Number(readFileSync('/proc/self/schedstat', 'latin1').split(' ')[1]) / 1e6
}
