/** The kernel's view of processes, read only from /proc. The rest of it is shared with the random testers. */
import { readdirSync, readFileSync, rmdirSync } from 'node:fs'
import path from 'node:path'
import { carries, listProcesses, read, show } from '../../scripts/fuzz/world.mjs'
import { until } from './until.js'

export {
  carries,
  descendants,
  engineThreads,
  entries,
  groupOf,
  identity,
  isAlive,
  listProcesses,
  openFiles,
  ownGroups,
  show,
} from '../../scripts/fuzz/world.mjs'

export type ProcessEntry = ReturnType<typeof listProcesses>[number]

/** The children of a process. The kernel's own list of them can leave some out while others end. */
export function children(parent: number): number[] {
  return listProcesses()
    .filter((one) => one.parent === parent)
    .map(({ pid }) => pid)
}

/** Removes an empty control group and the groups below it. */
export function removeGroup(directory: string): void {
  const below = readdirSync(directory, { withFileTypes: true }).filter((entry) => entry.isDirectory())
  for (const { name } of below) removeGroup(path.join(directory, name))
  rmdirSync(directory)
}

/** Processes with the tag, except zombies and this process. */
export function tagged(tag: string): ProcessEntry[] {
  return listProcesses().filter(({ pid, state }) => pid !== process.pid && state !== 'Z' && carries(tag, pid))
}

/** Whether a process with these words in its command line is running. */
export function runs(words: string): boolean {
  return listProcesses().some(({ pid, state }) => state !== 'Z' && commandLine(pid).includes(words))
}

/** The words of a process's command, separated by blanks. */
export function commandLine(pid: number): string {
  return read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim()
}

/** The numbers of ppoll(2) and wait4(2). */
const [PPOLL, WAIT4] = process.arch === 'arm64' ? ([73, 260] as const) : ([271, 61] as const)

/** Whether a shell or standby waits for its next request, in ppoll(2). */
export const isReceiving = (pid: number) => isIn(pid, PPOLL)

/** Whether a shell waits for a program, in wait4(2). */
export const isWaiting = (pid: number) => isIn(pid, WAIT4)

/** Whether a process waits in this system call. An ordinary user only sees that it sleeps. */
function isIn(pid: number, call: number): boolean {
  try {
    return Number.parseInt(readFileSync(`/proc/${pid}/syscall`, 'latin1'), 10) === call
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EACCES') return false
    return listProcesses().some((entry) => entry.pid === pid && entry.state === 'S')
  }
}

/** A field of /proc/<pid>/status as a number; sizes there are in kB. */
export function statusNumber(field: string, pid: number | 'self' = 'self'): number {
  return Number(new RegExp(`^${field}:\\s*(\\d+)`, 'm').exec(read(`/proc/${pid}/status`))?.[1])
}

/** The pid of a process in its own pid namespace; NaN if it has ended. */
export function ownPid(pid: number): number {
  return Number(/^NSpid:.*\t(\d+)$/m.exec(read(`/proc/${pid}/status`))?.[1])
}

/** The bytes that a process has read or written so far, from and to anything; 0 if it has ended. */
export function bytes(direction: 'rchar' | 'wchar', pid: number | 'self' = 'self'): number {
  return Number(new RegExp(`^${direction}: (\\d+)$`, 'm').exec(read(`/proc/${pid}/io`))?.[1] ?? 0)
}

/** A sleep command that no other test has: its arguments alone identify it. */
export function uniqueSleep(): string {
  naps++
  return `sleep ${process.pid}${String(naps).padStart(4, '0')}`
}

let naps = 0

/** Sends a signal to a process, or to a group if negative; false if it has ended, even just before the call. */
export function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false
    throw error
  }
}

/** Kills a process with SIGKILL, if it has not ended. Refuses 0, which would be this process's whole group, and 1. */
export function kill(pid: number): void {
  if (!Number.isInteger(pid) || pid <= 1) throw new Error(`not a process to kill: ${pid}`)
  signal(pid, 'SIGKILL')
}

/**
 * Waits until this many programs run with exactly these words. A shell that was given the words, or a program that will
 * start the program, has more.
 */
export async function untilRuns(words: string, times = 1): Promise<void> {
  const count = () =>
    listProcesses().filter(({ pid, state }) => state !== 'Z' && commandLine(pid) === words).length
  await until(
    () => count() >= times || undefined,
    () => `${words} did not start, or not ${times} times`,
  )
}

/** Waits until a process is stopped. */
export async function untilStopped(pid: number): Promise<void> {
  const found = () => listProcesses().find((entry) => entry.pid === pid)
  await until(
    () => found()?.state === 'T' || undefined,
    () => {
      const entry = found()
      return entry ? `process ${show(entry)} does not stop` : `process ${pid} has ended`
    },
  )
}
