/** Kernel statistics about processes, both this benchmark's and others. */
import { readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'

/** The text of a file in /proc, or '' if its process has ended. */
function read(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

/** The value of a line like `VmRSS:  123 kB`, in bytes. */
function amount(text, name) {
  const found = new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)
  return found === null ? 0 : Number(found[1]) * 1024
}

/** All processes below a process, excluding it. */
export function descendants(pid) {
  const found = []
  const open = [pid]
  while (open.length > 0) {
    const parent = open.pop()
    let tasks = []
    try {
      tasks = readdirSync(`/proc/${parent}/task`)
    } catch {
      continue
    }
    for (const task of tasks) {
      const children = read(`/proc/${parent}/task/${task}/children`).split(' ').filter(Boolean).map(Number)
      found.push(...children)
      open.push(...children)
    }
  }
  return found
}

/** Whether a process with this pid exists, including zombies. */
export function isThere(pid) {
  return read(`/proc/${pid}/stat`) !== ''
}

/** The processes with this text in their NUL-separated arguments. Zombies have no arguments. */
export function carrying(text) {
  return readdirSync('/proc')
    .filter((name) => /^[0-9]+$/.test(name) && read(`/proc/${name}/cmdline`).includes(text))
    .map(Number)
}

/** Bytes of memory that only this process uses. */
export function privateMemory(pid) {
  const text = read(`/proc/${pid}/smaps_rollup`)
  return amount(text, 'Private_Clean') + amount(text, 'Private_Dirty')
}

/** The name of a process's program. */
export function programOf(pid) {
  try {
    return path.basename(readlinkSync(`/proc/${pid}/exe`))
  } catch {
    return ''
  }
}

/** The resource usage of this process; memory in bytes. */
export function ownUse() {
  const status = read('/proc/self/status')
  return {
    rss: amount(status, 'VmRSS'),
    peak: amount(status, 'VmHWM'),
    threads: Number(/^Threads:\s+(\d+)/m.exec(status)?.[1]),
    descriptors: readdirSync('/proc/self/fd').length,
    processes: descendants(process.pid).length,
    groups: countGroups(),
  }
}

/** Resets `peak` to the current usage (proc(5)). */
export function resetPeak() {
  writeFileSync('/proc/self/clear_refs', '5')
}

/** Control groups that this process has created, below its own group in the version 2 hierarchy. */
function countGroups() {
  const mounts = read('/proc/self/mountinfo')
  const own = /^0::(.*)$/m.exec(read('/proc/self/cgroup'))?.[1]
  const mount = /^\S+ \S+ \S+ \S+ (\S+) .* - cgroup2 /m.exec(mounts)?.[1]
  if (own === undefined || mount === undefined) return 0
  return countBelow(`${mount}${own}`.replace(/\/$/, ''), (name) => name.startsWith(`nacre-${process.pid}-`))
}

function countBelow(directory, wanted) {
  let entries = []
  try {
    entries = readdirSync(directory, { withFileTypes: true })
  } catch {
    return 0
  }
  return entries
    .filter((entry) => entry.isDirectory() && wanted(entry.name))
    .reduce((count, entry) => count + 1 + countBelow(`${directory}/${entry.name}`, () => true), 0)
}

/** Collects garbage, if the runtime allows it, so that only memory in use is measured. */
export function collectGarbage() {
  globalThis.gc?.()
  globalThis.Bun?.gc(true)
}
