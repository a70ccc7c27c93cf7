/**
 * Signal names and numbers of Linux, in both directions.
 *
 * The table is fixed, since clients check signals where there is no operating system to ask, and may run on a different
 * system than the command. Real-time signals have the names that bash gives them, counted from SIGRTMIN = 34.
 */

/** The largest signal number of Linux (SIGRTMAX). */
export const MAX_SIGNAL = 64

const FIRST_REALTIME = 34

/** signal(7), for all architectures but Alpha, SPARC, MIPS and PA-RISC, in the order of the numbers from 1. */
const NAMES =
  'HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ ' +
  'VTALRM PROF WINCH IO PWR SYS'

const names = NAMES.split(' ').map((name) => `SIG${name}`)
const numbers = new Map(names.map((name, at) => [name, at + 1]))
// Two more names, which are not shown.
numbers.set('SIGIOT', 6).set('SIGPOLL', 29)

/** The number of a name like 'SIGTERM'; undefined if there is no such signal. */
export function signalNumber(name: string): number | undefined {
  return numbers.get(name)
}

/** The name of a signal number; never undefined, since a command can die of any of the 64. */
export function signalName(number: number): NodeJS.Signals {
  return (names[number - 1] ?? realtimeName(number)) as NodeJS.Signals
}

/** 32 and 33 lie below SIGRTMIN because the C library keeps them for its threads. */
function realtimeName(number: number): string {
  if (number < FIRST_REALTIME) return `SIG${number}`
  return number === FIRST_REALTIME ? 'SIGRTMIN' : `SIGRTMIN+${number - FIRST_REALTIME}`
}
