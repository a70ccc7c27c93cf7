/**
 * Signal names and numbers of Linux, in both directions.
 *
 * The table is fixed, since clients check signals where there is no operating system to ask, and may run on a different
 * system than the command. Real-time signals have the names that bash gives them, counted from SIGRTMIN = 34.
 */

/** The largest signal number of Linux (SIGRTMAX). */
export const MAX_SIGNAL = 64

const FIRST_REALTIME = 34

/** signal(7), for all architectures but Alpha, SPARC, MIPS and PA-RISC. If two names share a number, the first is shown. */
const NUMBERS = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGILL: 4,
  SIGTRAP: 5,
  SIGABRT: 6,
  SIGIOT: 6,
  SIGBUS: 7,
  SIGFPE: 8,
  SIGKILL: 9,
  SIGUSR1: 10,
  SIGSEGV: 11,
  SIGUSR2: 12,
  SIGPIPE: 13,
  SIGALRM: 14,
  SIGTERM: 15,
  SIGSTKFLT: 16,
  SIGCHLD: 17,
  SIGCONT: 18,
  SIGSTOP: 19,
  SIGTSTP: 20,
  SIGTTIN: 21,
  SIGTTOU: 22,
  SIGURG: 23,
  SIGXCPU: 24,
  SIGXFSZ: 25,
  SIGVTALRM: 26,
  SIGPROF: 27,
  SIGWINCH: 28,
  SIGIO: 29,
  SIGPOLL: 29,
  SIGPWR: 30,
  SIGSYS: 31,
}

const numbers = new Map<string, number>(Object.entries(NUMBERS))
const names = new Map<number, string>()
for (const [name, number] of numbers) {
  if (!names.has(number)) names.set(number, name)
}

/** The number of a name like 'SIGTERM'; undefined if there is no such signal. */
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
