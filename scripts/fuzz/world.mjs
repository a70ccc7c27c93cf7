/** The kernel's view of processes, threads, file descriptors and control groups, and what must not remain after a sandbox. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Every existing process. Those with one of the pids in `except` are not even looked at. `started`: the start time in clock
 * ticks. With the pid, it identifies a process even after the pid is reused. `session`: the pid of the process that called
 * setsid.
 */
export function listProcesses(except = new Set()) {
  return numbers('/proc').flatMap((pid) => {
    if (except.has(pid)) return []
    const stat = read(`/proc/${pid}/stat`)
    if (stat === '') return []
    const [state = '', parent = '', ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return [{ pid, parent: Number(parent), state, started: rest[17] ?? '', session: Number(rest[1]) }]
  })
}

/**
 * All processes below one.
 *
 * @returns {ReturnType<typeof listProcesses>}
 */
export function descendants(root, all = listProcesses()) {
  const children = all.filter(({ parent }) => parent === root)
  return children.flatMap((child) => [child, ...descendants(child.pid, all)])
}

/** Identifies a process uniquely. */
export function identity({ pid, started }) {
  return `${pid}@${started}`
}

/** The supervisor and standby of a shell. */
export function family(shell) {
  const all = listProcesses()
  const supervisor = all.find(({ pid }) => pid === shell)?.parent
  if (supervisor === undefined || all.find(({ pid }) => pid === supervisor)?.parent !== process.pid) return {}
  const standby = all.find(
    ({ pid, parent, state }) =>
      parent === supervisor && state !== 'Z' && read(`/proc/${pid}/comm`) === 'nacre-standby\n',
  )?.pid
  return { supervisor, standby }
}

/** Sends a signal to a process that must be below this one. */
export function signal(pid, name) {
  if (!Number.isInteger(pid) || pid <= 1) return false
  if (!descendants(process.pid).some((entry) => entry.pid === pid)) return false
  try {
    return process.kill(pid, name)
  } catch (error) {
    if (error.code === 'ESRCH') return false
    throw error
  }
}

/** Whether a process exists and is not a zombie. */
export function isAlive(pid) {
  const stat = read(`/proc/${pid}/stat`)
  return stat !== '' && stat.slice(stat.lastIndexOf(')') + 2)[0] !== 'Z'
}

/**
 * Records what exists before a sandbox. A process of the machine with one of these pids is not the sandbox's, and is not
 * looked at: reading all of /proc three times took longer than the rest of a short test. This overlooks a process only if the
 * numbers wrap around meanwhile, and reach one that has become free.
 */
export function takeInventory() {
  const pids = new Set(numbers('/proc'))
  return { pids, files: openFiles(), threads: engineThreads(), groups: ownGroups() }
}

/** New processes that are below this process or have the tag of a sandbox. */
export function belongings(tag, { pids }) {
  const fresh = listProcesses(pids)
  const tagged = fresh.filter(({ pid }) => carries(tag, pid))
  return new Set([...tagged, ...descendants(process.pid, fresh)].map(identity))
}

/** Waits until nothing of a destroyed sandbox remains, and returns what is left after `limit` ms. */
export async function leftovers(tag, owned, before, limit = 30_000) {
  const deadline = performance.now() + limit
  for (;;) {
    const left = look(tag, owned, before)
    if (left.length === 0 || performance.now() > deadline) return left
    await sleep(5)
  }
}

function look(tag, owned, before) {
  const isLeft = (entry) =>
    // A zombie that this process should have reaped.
    (entry.parent === process.pid && entry.state === 'Z') ||
    owned.has(identity(entry)) ||
    carries(tag, entry.pid)
  const left = listProcesses(before.pids).filter(isLeft)
  return [
    ...left.map((entry) => `process ${show(entry)}`),
    ...surplus('file descriptor', openFiles(), before.files),
    ...surplus('thread', engineThreads(), before.threads),
    ...surplus('control group', ownGroups(), before.groups),
  ]
}

/** The present items, if there are more than before; names only suggest which are new. */
function surplus(kind, now, before) {
  if (now.length <= before.length) return []
  const fresh = now.filter((name) => !before.includes(name))
  return [`${now.length - before.length} more of kind ${kind}: ${fresh.join(', ')}`]
}

/** Whether a process has the tag in its environment or command line. */
export function carries(tag, pid) {
  return read(`/proc/${pid}/environ`).includes(tag) || read(`/proc/${pid}/cmdline`).includes(tag)
}

/** A process for a message: pid, state, command line. */
export function show({ pid, state }) {
  return `${pid} ${state} ${read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').slice(0, 120)}`
}

/**
 * The targets of a process's open file descriptors, as `number -> target`. A program that has just started still opens and
 * closes files (its loader does): a descriptor that is closed between the listing and the reading is left out.
 */
export function openFiles(pid = 'self') {
  return numbers(`/proc/${pid}/fd`).flatMap((fd) => {
    try {
      return [`${fd} -> ${readlinkSync(`/proc/${pid}/fd/${fd}`)}`]
    } catch {
      return []
    }
  })
}

/** The engine's threads in this process. The runtime's threads come and go as it compiles and collects garbage. */
export function engineThreads() {
  const names = numbers('/proc/self/task').map((task) => read(`/proc/self/task/${task}/comm`).trim())
  return names.filter((name) => name.startsWith('nacre'))
}

/**
 * Paths of control groups next to this process's that were created for sandboxes of a host, by default this process.
 *
 * @param {number | string} host
 */
export function ownGroups(host = process.pid) {
  const name = new RegExp(`^nacre-(.*-)?${host}(-|$)`)
  return siblingGroups().filter((group) => name.test(path.basename(group)))
}

/** Paths of what is in this process's control group. */
export function siblingGroups() {
  const directory = groupOf('self')
  return directory === undefined ? [] : entries(directory).map((name) => path.join(directory, name))
}

/** The directory of a process's control group, if there are groups of version 2. */
export function groupOf(pid) {
  const group = /^0::(.*)$/m.exec(read(`/proc/${pid}/cgroup`))?.[1]
  const mounts = read('/proc/self/mountinfo').split('\n')
  const mount = mounts.find((line) => line.includes(' - cgroup2 '))?.split(' ')[4]
  return group === undefined || mount === undefined ? undefined : path.join(mount, group)
}

/** The names in a directory; none if it does not exist. */
export function entries(directory) {
  try {
    return readdirSync(directory)
  } catch {
    return []
  }
}

/** The names in a directory that are numbers. */
export function numbers(directory) {
  return entries(directory)
    .filter((name) => /^[0-9]+$/.test(name))
    .map(Number)
}

/** A file's text; empty if the process has ended or may not be inspected. */
export function read(file) {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return ''
  }
}
