/** Private memory and descriptors of an idle session: supervisor, shell, and the standby that is forked in idle time. */

import { readdirSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Sandbox } from 'nacre'
import { descendants, privateMemory, programOf } from '../processes.mjs'

export const title = 'Private memory of an idle session, beside another one'
export const variants = ['']

const descriptors = () => readdirSync('/proc/self/fd').length

/** Starts a session that has a state and has run a program. Resolves with its processes, once they are idle. */
async function idle(sandbox) {
  const before = new Set(descendants(process.pid))
  const session = await sandbox.createSession()
  await session.exec('answer=42; greet() { echo "hello $1"; }')
  await session.exec('/bin/true')
  await sleep(500)
  return descendants(process.pid).filter((pid) => !before.has(pid))
}

export async function measure() {
  const sandbox = new Sandbox()
  // It starts the engine, and has the program that all sessions share.
  await idle(sandbox)
  const before = descriptors()
  const pids = await idle(sandbox)
  const held = descriptors() - before
  const processes = pids.map((pid) => ({ program: programOf(pid), bytes: privateMemory(pid) }))
  await sandbox.destroy()
  return { held, processes, bytes: processes.reduce((sum, { bytes }) => sum + bytes, 0) }
}
