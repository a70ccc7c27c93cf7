/** The kernel's view of processes, threads, file descriptors and control groups, read only from /proc. */
import { readdirSync, readFileSync, readlinkSync, rmdirSync } from 'node:fs'
import path from 'node:path'
import { until } from './until.js'

export interface ProcessEntry {
  pid: number
  parent: number
  /** One letter: R, S, Z, T or another. */
  state: string
  /** Start time in clock ticks; with the pid, it identifies a process even after the pid is reused. */
  started: string
  /** Its session number: the pid of the process that called setsid. */
  session: number
}

/** Every existing process. Those with one of the pids in `except` are not even looked at. */
export function listProcesses(except: ReadonlySet<number> = new Set()): ProcessEntry[] {
  return listPids().flatMap((pid) => {
    if (except.has(pid)) return []
    const stat = read(`/proc/${pid}/stat`)
    if (stat === '') return []
    const [state = '', parent = '', ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return [{ pid, parent: Number(parent), state, started: rest[17] ?? '', session: Number(rest[1]) }]
  })
}

/** The pid of every existing process. */
export function listPids(): number[] {
  return numericEntries('/proc')
}

/** All descendants of `root`. */
export function descendants(root: number, processes = listProcesses()): ProcessEntry[] {
  const children = processes.filter(({ parent }) => parent === root)
  return children.flatMap((child) => [child, ...descendants(child.pid, processes)])
}

/** The children of a process. The kernel's own list of them can leave some out while others end. */
export function children(parent: number): number[] {
  return listProcesses()
    .filter((one) => one.parent === parent)
    .map(({ pid }) => pid)
}

/** Identifies a process uniquely. */
export function identity({ pid, started }: ProcessEntry): string {
  return `${pid}@${started}`
}

/** Whether a process has the tag in its environment or command line. */
export function carries(tag: string, pid: number): boolean {
  return read(`/proc/${pid}/environ`).includes(tag) || read(`/proc/${pid}/cmdline`).includes(tag)
}

/** A process for a message: pid, state, command line. */
export function show({ pid, state }: ProcessEntry): string {
  return `${pid} ${state} ${read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').slice(0, 120)}`
}

/**
 * The targets of a process's open file descriptors, as `number -> target`. A program that has just started still opens and
 * closes files (its loader does): a descriptor that is closed between the listing and the reading is left out.
 */
export function openFiles(pid: number | 'self' = 'self'): string[] {
  return numericEntries(`/proc/${pid}/fd`).flatMap((fd) => {
    try {
      return [`${fd} -> ${readlinkSync(`/proc/${pid}/fd/${fd}`)}`]
    } catch {
      return []
    }
  })
}

/** The engine's threads in this process. The runtime's threads come and go as it compiles and collects garbage. */
export function engineThreads(): string[] {
  const names = numericEntries('/proc/self/task').map((task) => read(`/proc/self/task/${task}/comm`).trim())
  return names.filter((name) => name.startsWith('nacre'))
}

/** Paths of control groups next to this process's that were created for sandboxes of a host, by default this process. */
export function ownGroups(host: number | string = process.pid): string[] {
  const directory = groupOf('self')
  if (directory === undefined) return []
  const name = new RegExp(`^nacre-(.*-)?${host}(-|$)`)
  return entries(directory)
    .filter((entry) => name.test(entry))
    .map((entry) => path.join(directory, entry))
}

/** The directory of a process's control group, if there are groups of version 2. */
export function groupOf(pid: number | 'self'): string | undefined {
  const group = /^0::(.*)$/m.exec(read(`/proc/${pid}/cgroup`))?.[1]
  const mounts = read('/proc/self/mountinfo').split('\n')
  const mount = mounts.find((line) => line.includes(' - cgroup2 '))?.split(' ')[4]
  return group === undefined || mount === undefined ? undefined : path.join(mount, group)
}

/** Removes an empty control group and the groups below it. */
export function removeGroup(directory: string): void {
  const below = readdirSync(directory, { withFileTypes: true }).filter((entry) => entry.isDirectory())
  for (const { name } of below) removeGroup(path.join(directory, name))
  rmdirSync(directory)
}

/** The names in a directory; none if it does not exist. */
export function entries(directory: string): string[] {
  try {
    return readdirSync(directory)
  } catch {
    return []
  }
}

function numericEntries(directory: string): number[] {
  return entries(directory)
    .filter((name) => /^[0-9]+$/.test(name))
    .map(Number)
}

/** A file's text; undefined if the process has ended or may not be inspected. */
function read(file: string): string {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return ''
  }
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

/** Whether a process exists and is not a zombie. */
export function isAlive(pid: number): boolean {
  const stat = read(`/proc/${pid}/stat`)
  return stat !== '' && !stat.slice(stat.lastIndexOf(')') + 2).startsWith('Z')
}

/** The number of ppoll(2), in which a shell and its standby wait for a request. */
const WAIT = process.arch === 'arm64' ? 73 : 271

/** Whether a shell or standby waits for its next request. An ordinary user only sees that it sleeps. */
export function isReceiving(pid: number): boolean {
  try {
    return Number.parseInt(readFileSync(`/proc/${pid}/syscall`, 'latin1'), 10) === WAIT
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
  await until(
    () => listProcesses().some((entry) => entry.pid === pid && entry.state === 'T') || undefined,
    () => `process ${pid} does not stop`,
  )
}
