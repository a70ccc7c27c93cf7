/** The kernel's view: the processes of a sandbox, and what must not remain after it. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** Every process, as pid, parent, state and start time. */
export function processes() {
  return numbers('/proc').flatMap((pid) => {
    const stat = read(`/proc/${pid}/stat`)
    if (stat === '') return []
    const [state, parent, ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return [{ pid, parent: Number(parent), state, identity: `${pid}@${rest[17]}` }]
  })
}

/** All processes below one. */
export function descendants(root, all = processes()) {
  const children = all.filter(({ parent }) => parent === root)
  return children.flatMap((child) => [child, ...descendants(child.pid, all)])
}

/** The supervisor and standby of a shell. */
export function family(shell) {
  const all = processes()
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

/** True for a process that exists and is not a zombie. */
export function isAlive(pid) {
  const stat = read(`/proc/${pid}/stat`)
  return stat !== '' && stat.slice(stat.lastIndexOf(')') + 2)[0] !== 'Z'
}

/** Records what exists before a sandbox. */
export function takeInventory() {
  return {
    below: new Set(descendants(process.pid).map(({ identity }) => identity)),
    files: openFiles(),
    threads: engineThreads(),
    groups: groups(),
  }
}

/** Processes that carry the tag of a sandbox, and new processes below this process. */
export function belongings(tag, before) {
  const all = processes()
  const below = descendants(process.pid, all).filter(({ identity }) => !before.below.has(identity))
  return new Set([...all.filter(({ pid }) => carries(tag, pid)), ...below].map(({ identity }) => identity))
}

/** Waits until nothing of a destroyed sandbox remains, and returns what is left after `limit` ms. */
export async function leftovers(tag, owned, before, limit = 3000) {
  const deadline = performance.now() + limit
  for (;;) {
    const left = look(tag, owned, before)
    if (left.length === 0 || performance.now() > deadline) return left
    await sleep(20)
  }
}

function look(tag, owned, before) {
  const left = processes()
    .filter(
      ({ pid, parent, state, identity }) =>
        pid !== process.pid &&
        ((parent === process.pid && state === 'Z') || owned.has(identity) || carries(tag, pid)),
    )
    .map(({ pid, state }) => `process ${pid} ${state} ${read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ')}`)
  return [
    ...left,
    ...surplus('descriptor', openFiles(), before.files),
    ...surplus('thread', engineThreads(), before.threads),
    ...surplus('cgroup', groups(), before.groups),
  ]
}

function surplus(kind, now, before) {
  if (now.length <= before.length) return []
  return [
    `${now.length - before.length} more ${kind}s: ${now.filter((one) => !before.includes(one)).join(', ')}`,
  ]
}

export function carries(tag, pid) {
  return pid !== process.pid && read(`/proc/${pid}/environ`).includes(tag)
}

function openFiles() {
  return numbers('/proc/self/fd').flatMap((fd) => {
    try {
      return [`${fd} -> ${readlinkSync(`/proc/self/fd/${fd}`)}`]
    } catch {
      return []
    }
  })
}

function engineThreads() {
  const names = numbers('/proc/self/task').map((task) => read(`/proc/self/task/${task}/comm`).trim())
  return names.filter((name) => name.startsWith('nacre'))
}

/** cgroups next to this process's that were created for its sandboxes. */
function groups() {
  const name = new RegExp(`^nacre-(.*-)?${process.pid}(-|$)`)
  return entriesOfGroup().filter((entry) => name.test(entry))
}

/** The entries of this process's cgroup. */
export function entriesOfGroup() {
  const own = /^0::(.*)$/m.exec(read('/proc/self/cgroup'))?.[1]
  const mount = read('/proc/self/mountinfo')
    .split('\n')
    .find((line) => line.includes(' - cgroup2 '))
    ?.split(' ')[4]
  if (own === undefined || mount === undefined) return []
  return entries(path.join(mount, own))
}

export function entries(directory) {
  try {
    return readdirSync(directory)
  } catch {
    return []
  }
}

export function numbers(directory) {
  return entries(directory)
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
}

export function read(file) {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return ''
  }
}
