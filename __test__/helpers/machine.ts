/** What the machine and the runtime did to this thread, by their own accounts. */
import { readFileSync } from 'node:fs'
import { type PerformanceEntry, PerformanceObserver } from 'node:perf_hooks'
import { setImmediate } from 'node:timers/promises'

const isBun = process.versions.bun !== undefined

/** A span of time, in ms of performance.now(). */
export interface Span {
  start: number
  end: number
}

/**
 * Milliseconds that the main thread was runnable without a processor, since its start (proc(5), schedstat).
 */
export function waitedForCpu(): number {
  return Number(readFileSync('/proc/self/schedstat', 'latin1').split(' ')[1]) / 1e6
}

/** Starts observing. Returns a function that reports what could have delayed the thread meanwhile. */
export function watchMachine(): () => string {
  const before = { faults: majorFaults(), stolen: stolenTicks() }
  return () => {
    const faults = majorFaults() - before.faults
    if (faults > 0) return `${faults} pages had to be read from disk`
    const stolen = stolenTicks() - before.stolen
    if (stolen > 0) return `the hypervisor took ${stolen * 10} ms from the processors`
    return isBun ? 'Bun does not report when and for how long it collects garbage' : 'no cause was found'
  }
}

/** Page faults of the main thread that needed the disk (proc(5), stat). */
function majorFaults(): number {
  const stat = readFileSync('/proc/thread-self/stat', 'latin1')
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[9])
}

/** Time that other guests had this guest's processors, in hundredths of a second (proc(5), stat). */
function stolenTicks(): number {
  return Number(/^cpu +(?:\d+ ){7}(\d+)/.exec(readFileSync('/proc/stat', 'latin1'))?.[1])
}

const pauses: Span[] = []

function note({ startTime, duration }: PerformanceEntry): void {
  pauses.push({ start: startTime, end: startTime + duration })
  if (pauses.length > 1000) pauses.shift()
}

if (!isBun) new PerformanceObserver((list) => list.getEntries().forEach(note)).observe({ entryTypes: ['gc'] })

/** Milliseconds of a span in which Node collected garbage. 0 on Bun, which does not report that. */
export async function collecting({ start, end }: Span): Promise<number> {
  // The entries arrive in a separate turn of the event loop.
  await setImmediate()
  await setImmediate()
  return pauses.reduce(
    (sum, pause) => sum + Math.max(0, Math.min(end, pause.end) - Math.max(start, pause.start)),
    0,
  )
}
