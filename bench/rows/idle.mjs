/** Private memory and descriptors of an idle session: supervisor, shell, and the standby that is forked in idle time. */

import { readdirSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Sandbox } from 'nacre'
import { descendants, privateMemory, programOf } from '../processes.mjs'

export const title = 'Private memory of an idle session'
export const variants = ['']

const descriptors = () => readdirSync('/proc/self/fd').length

export async function measure() {
  const sandbox = new Sandbox()
  // The first session also starts the engine.
  await sandbox.exec('true')
  await sandbox.deleteSession('default')
  const before = descriptors()
  await sandbox.exec('answer=42; greet() { echo "hello $1"; }')
  await sandbox.exec('/bin/true')
  await sleep(500)
  const processes = descendants(process.pid)
    .map((pid) => ({ program: programOf(pid), bytes: privateMemory(pid) }))
    .filter(({ program }) => program === 'bash' || program.startsWith('nacre'))
  const held = descriptors() - before
  await sandbox.destroy()
  return { held, processes, bytes: processes.reduce((sum, { bytes }) => sum + bytes, 0) }
}
