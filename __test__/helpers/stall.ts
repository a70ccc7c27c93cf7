/** How long the event loop stood still while something ran. */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setImmediate } from 'node:timers/promises'

/** Runs `action` and gives its value and the longest stall in ms, by a timer of 1 ms. */
export async function longestStall<T>(action: () => Promise<T>): Promise<{ value: T; stall: number }> {
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  await setImmediate()
  try {
    const value = await action()
    await setImmediate()
    return { value, stall: delay.max / 1e6 }
  } finally {
    delay.disable()
  }
}
