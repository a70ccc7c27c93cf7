/** What the kernel says about processes, threads, file descriptors and control groups: /proc and nothing else. */
import { readdirSync, readFileSync, readlinkSync, rmdirSync } from 'node:fs'
import path from 'node:path'
import { notAStall } from './stall.js'
import { until } from './until.js'

export interface ProcessEntry {
  pid: number
  parent: number
  /** One letter: R, S, Z, T, ... */
  state: string
  /** Start time in clock ticks; with the pid it names a process even when the number is used again. */
  started: string
  /** The number of its session: the pid of the process that called setsid. */
  session: number
}

/** Every process that is there now. */
export function listProcesses(): ProcessEntry[] {
  return notAStall(() =>
    numericEntries('/proc').flatMap((pid) => {
      const stat = read(`/proc/${pid}/stat`)
      if (stat === '') return []
      const [state = '', parent = '', ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      return [{ pid, parent: Number(parent), state, started: rest[17] ?? '', session: Number(rest[1]) }]
    }),
  )
}

/** All processes below `root`, children of children included. */
export function descendants(root: number, processes = listProcesses()): ProcessEntry[] {
  const children = processes.filter(({ parent }) => parent === root)
  return children.flatMap((child) => [child, ...descendants(child.pid, processes)])
}

/** The children of a process with one thread. */
export function children(parent: number): number[] {
  return read(`/proc/${parent}/task/${parent}/children`).split(' ').filter(Boolean).map(Number)
}

/** Names a process for ever. */
export function identity({ pid, started }: ProcessEntry): string {
  return `${pid}@${started}`
}

/** Whether the tag is in a process's environment or command line. */
export function carries(tag: string, pid: number): boolean {
  return read(`/proc/${pid}/environ`).includes(tag) || read(`/proc/${pid}/cmdline`).includes(tag)
}

/** A process for a message: pid, state, command line. */
export function show({ pid, state }: ProcessEntry): string {
  return `${pid} ${state} ${read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').slice(0, 120)}`
}

/**
 * What each open file descriptor of a process leads to, as `number -> target`. A program that has just begun still opens
 * and closes files (its loader does): one that is closed between the listing and the reading is not there.
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

/** The engine's threads in this process. Those of the runtime come and go as it compiles and collects. */
export function engineThreads(): string[] {
  const names = numericEntries('/proc/self/task').map((task) => read(`/proc/self/task/${task}/comm`).trim())
  return names.filter((name) => name.startsWith('nacre'))
}

/** Control groups beside this process that were made for sandboxes of a host, by default this process; as paths. */
export function ownGroups(host: number | string = process.pid): string[] {
  const own = /^0::(.*)$/m.exec(read('/proc/self/cgroup'))?.[1]
  const mounts = read('/proc/self/mountinfo').split('\n')
  const mount = mounts.find((line) => line.includes(' - cgroup2 '))?.split(' ')[4]
  if (own === undefined || mount === undefined) return []
  const name = new RegExp(`^nacre-(.*-)?${host}(-|$)`)
  const directory = path.join(mount, own)
  return entries(directory)
    .filter((entry) => name.test(entry))
    .map((entry) => path.join(directory, entry))
}

/** Removes an empty control group and those below it. */
export function removeGroup(directory: string): void {
  const below = readdirSync(directory, { withFileTypes: true }).filter((entry) => entry.isDirectory())
  for (const { name } of below) removeGroup(path.join(directory, name))
  rmdirSync(directory)
}

/** Names in a directory, or none when it is not there. */
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

/** A file's text, or nothing when the process has ended or is not ours to look at. */
function read(file: string): string {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return ''
  }
}

/** The processes with the tag that are neither zombies nor this one. */
export function tagged(tag: string): ProcessEntry[] {
  return listProcesses().filter(({ pid, state }) => pid !== process.pid && state !== 'Z' && carries(tag, pid))
}

/** Whether a process with these words in its command line runs. */
export function runs(words: string): boolean {
  const processes = listProcesses()
  return notAStall(() =>
    processes.some(({ pid, state }) => state !== 'Z' && commandLine(pid).includes(words)),
  )
}

/** The words of a process's command, with blanks between. */
export function commandLine(pid: number): string {
  return read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim()
}

/** Whether a process is there and not a zombie. */
export function isAlive(pid: number): boolean {
  const stat = read(`/proc/${pid}/stat`)
  return stat !== '' && !stat.slice(stat.lastIndexOf(')') + 2).startsWith('Z')
}

/** The number of the system call that a process sleeps in; undefined while it runs. */
export function systemCall(pid: number): number | undefined {
  const number = Number.parseInt(read(`/proc/${pid}/syscall`), 10)
  return Number.isNaN(number) ? undefined : number
}

/** A field of /proc/<pid>/status as a number; sizes are in kB there. */
export function statusNumber(field: string, pid: number | 'self' = 'self'): number {
  return Number(new RegExp(`^${field}:\\s*(\\d+)`, 'm').exec(read(`/proc/${pid}/status`))?.[1])
}

/** The command of a sleep that no other test has: its arguments alone identify it. */
export function uniqueSleep(): string {
  naps++
  return `sleep ${process.pid}${String(naps).padStart(4, '0')}`
}

let naps = 0

/** Sends a signal to a process, or to a group when negative; false when it has ended: between a look and this it may. */
export function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false
    throw error
  }
}

/** Kills a process with SIGKILL, if it has not ended. 0, which would be this process's whole group, and 1 are refused. */
export function kill(pid: number): void {
  if (!Number.isInteger(pid) || pid <= 1) throw new Error(`not a process to kill: ${pid}`)
  signal(pid, 'SIGKILL')
}

/**
 * Waits until so many programs run with exactly these words: a shell that was given them, or a program that is to begin
 * the program, has more.
 */
export async function untilRuns(words: string, times = 1): Promise<void> {
  const count = () =>
    listProcesses().filter(({ pid, state }) => state !== 'Z' && commandLine(pid) === words).length
  await until(
    () => notAStall(count) >= times || undefined,
    () => `${words} did not start, or not ${times} times`,
    10_000,
  )
}

/** Waits until a process is stopped. */
export async function untilStopped(pid: number): Promise<void> {
  await until(
    () => listProcesses().some((entry) => entry.pid === pid && entry.state === 'T') || undefined,
    () => `process ${pid} does not stop`,
    10_000,
  )
}
