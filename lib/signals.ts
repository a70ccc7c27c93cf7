/**
 * Signal names and numbers of Linux, in both directions.
 *
 * Real-time signals have no name in Node's table; they are called as bash calls them, counted from SIGRTMIN = 34.
 */
import os from 'node:os'

/** The largest signal number of Linux (SIGRTMAX). */
export const MAX_SIGNAL = 64

const FIRST_REALTIME = 34
const numbers = new Map<string, number>(Object.entries(os.constants.signals))
const names = new Map<number, string>()
for (const [name, number] of numbers) {
  if (!names.has(number)) names.set(number, name)
}

/** The number of 'SIGTERM' and the like; undefined when there is no such signal. */
export function signalNumber(name: string): number | undefined {
  return numbers.get(name)
}

/** The name of a signal number; never undefined, since a command can die of any of the 64. */
export function signalName(number: number): NodeJS.Signals {
  return (names.get(number) ?? realtimeName(number)) as NodeJS.Signals
}

/** 32 and 33 lie below SIGRTMIN because the C library keeps them for its threads. */
function realtimeName(number: number): string {
  if (number < FIRST_REALTIME) return `SIG${number}`
  return number === FIRST_REALTIME ? 'SIGRTMIN' : `SIGRTMIN+${number - FIRST_REALTIME}`
}
