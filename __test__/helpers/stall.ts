/** How long the event loop stalled during an action. */
import { setImmediate } from 'node:timers/promises'
import { collecting, waitedForCpu, watchMachine } from './machine.js'
import { measure } from './remeasure.js'

/** The longest permitted stall of a test, in ms. */
export const MAX_STALL_MS = 20

/** The longest stall in ms, and what other than nacre could have caused it. */
export interface Stall {
  longest: number
  cause: string | undefined
}

/** Check interval: a stall is anything longer. */
const INTERVAL_MS = 1

let ownWork = 0

/** Runs long work of the test itself, such as an inspection of every process, which does not count as a stall. */
export function notAStall<T>(work: () => T): T {
  const begun = performance.now()
  try {
    return work()
  } finally {
    ownWork += performance.now() - begun
  }
}

/**
 * Starts observing; the returned function stops. Time in which other programs had the processor, the test itself worked, or
 * Node collected garbage does not count as a stall.
 */
export function watchStalls(): () => Promise<Stall> {
  const causeOf = watchMachine()
  let longest = 0
  const gaps: Array<{ start: number; end: number; stall: number }> = []
  let last = look()
  const sample = () => {
    const now = look()
    const lost = now.waited - last.waited + now.worked - last.worked
    const stall = now.time - last.time - lost - INTERVAL_MS
    if (stall < MAX_STALL_MS) longest = Math.max(longest, stall)
    else gaps.push({ start: last.time, end: now.time, stall })
    last = now
  }
  const timer = setInterval(sample, INTERVAL_MS)
  timer.unref()
  let ended: Promise<Stall> | undefined
  const end = async () => {
    sample()
    clearInterval(timer)
    for (const gap of gaps) longest = Math.max(longest, gap.stall - (await collecting(gap)))
    return { longest, cause: longest < MAX_STALL_MS ? undefined : causeOf() }
  }
  return () => {
    ended ??= end()
    return ended
  }
}

function look(): { time: number; waited: number; worked: number } {
  return { time: performance.now(), waited: waitedForCpu(), worked: ownWork }
}

/** Runs `action` and returns its value and the longest stall meanwhile. */
export async function longestStall<T>(action: () => Promise<T>): Promise<{ value: T; stall: Stall }> {
  const stop = watchStalls()
  await setImmediate()
  try {
    const value = await action()
    await setImmediate()
    return { value, stall: await stop() }
  } finally {
    await stop()
  }
}

/** Measures a stall, again if something other than nacre could have caused it. Resolves to its length in ms. */
export async function measureStall(take: () => Promise<Stall>): Promise<number> {
  const { longest } = await measure(take, ({ longest, cause }) =>
    cause === undefined ? undefined : `the event loop stalled for ${longest.toFixed(0)} ms, and ${cause}`,
  )
  return longest
}
