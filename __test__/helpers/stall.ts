/** How long the event loop stood still while something ran. */
import { readFileSync } from 'node:fs'
import { setImmediate } from 'node:timers/promises'

/** The longest stall that a test may see, in ms. */
export const MAX_STALL_MS = 20

/**
 * How often something is run when the event loop stood still: a stall of ours comes every time. One that does not is the
 * machine's (a collection of the test's garbage, a page read from a slow disk, a virtual processor that was taken away).
 */
export const ATTEMPTS = 3

/** How often to look: a stall is what takes longer. */
const INTERVAL_MS = 1

let ownWork = 0

/** Runs something of the test's own that takes long, such as a look at every process: it is nobody's stall. */
export function notAStall<T>(work: () => T): T {
  const begun = performance.now()
  try {
    return work()
  } finally {
    ownWork += performance.now() - begun
  }
}

/** Begins to watch; the function it returns ends that and gives the longest stall in ms. */
export function watchStalls(): () => number {
  let longest = 0
  let last = look()
  const sample = () => {
    const now = look()
    const lost = now.waited - last.waited + now.worked - last.worked
    longest = Math.max(longest, now.time - last.time - lost - INTERVAL_MS)
    last = now
  }
  const timer = setInterval(sample, INTERVAL_MS)
  timer.unref()
  return () => {
    sample()
    clearInterval(timer)
    return longest
  }
}

function look(): { time: number; waited: number; worked: number } {
  return { time: performance.now(), waited: waitedForCpu(), worked: ownWork }
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

/** Runs `action` until it does not stall, and gives the least stall in ms; `check` looks at the value each time. */
export async function leastStall<T>(action: () => Promise<T>, check: (value: T) => void): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let attempt = 1; attempt <= ATTEMPTS && least >= MAX_STALL_MS; attempt++) {
    const { value, stall } = await longestStall(action)
    check(value)
    least = Math.min(least, stall)
  }
  return least
}

/**
 * Milliseconds that the main thread was ready to run and had no processor, since it started (proc(5), schedstat).
 * That is the doing of the other programs on the machine, and counts for nobody's stall.
 */
function waitedForCpu(): number {
  return Number(readFileSync('/proc/self/schedstat', 'latin1').split(' ')[1]) / 1e6
}
