/** Memory that an idle session has for itself: supervisor, shell, and the standby that is forked in idle time. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Sandbox } from 'nacre'
import { descendants, privateMemory, programOf } from '../processes.mjs'

export const title = 'Private memory of an idle session'
export const variants = ['']

export async function measure() {
  const sandbox = new Sandbox()
  await sandbox.exec('answer=42; greet() { echo "hello $1"; }')
  await sandbox.exec('/bin/true')
  await sleep(500)
  const processes = descendants(process.pid)
    .map((pid) => ({ program: programOf(pid), bytes: privateMemory(pid) }))
    .filter(({ program }) => program === 'bash' || program.startsWith('nacre'))
  await sandbox.destroy()
  return { processes, bytes: processes.reduce((sum, { bytes }) => sum + bytes, 0) }
}
