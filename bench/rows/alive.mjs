/**
 * 200 background processes that write a line per second: their cost in the host's processor time, over all threads; then
 * the time to kill them all, and whether any is left.
 *
 * They start no programs themselves: the seconds are timeouts of a read from a pipe without writers.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Sandbox } from 'nacre'
import { descendants, isThere } from '../processes.mjs'
import { time } from '../stats.mjs'

export const title = '200 background processes, a line a second each'
export const variants = ['']
const COUNT = 200
const SCRIPT = 'exec {never}<> <(:); while :; do echo "a line of $$"; read -rt 1 -u $never; done'

export async function measure(_variant, { quick }) {
  const sandbox = new Sandbox()
  const start = () => sandbox.startProcess(SCRIPT)
  await (await sandbox.startProcess('true')).waitForExit()
  await sleep(100)
  // The supervisor, the shell, its standby, and the fork that is prepared for the next start.
  const others = descendants(process.pid).length
  const begun = performance.now()
  const processes = await Promise.all(Array.from({ length: COUNT }, start))
  const started = performance.now() - begun
  await sleep(1500)
  const written = await countLines(processes)
  const use = await hostUse(quick ? 2000 : 5000)
  const lines = (await countLines(processes)) - written
  if (lines < COUNT * (quick ? 1 : 4)) throw new Error(`only ${lines} lines came`)
  let killed = 0
  const kill = await time(async () => {
    killed = await sandbox.killAllProcesses()
  })
  const left = processes.filter(({ pid }) => isThere(pid)).length
  const more = Math.max(0, descendants(process.pid).length - others)
  await sandbox.destroy()
  if (killed !== COUNT) throw new Error(`${killed} processes were killed`)
  return { started, lines, ...use, kill, left: left + more }
}

/** Processor time of this process over a number of ms, and its share of one core. */
async function hostUse(ms) {
  const begun = performance.now()
  const before = process.cpuUsage()
  await sleep(ms)
  const { user, system } = process.cpuUsage(before)
  const passed = performance.now() - begun
  return { passed, used: (user + system) / 1000, share: (user + system) / 1000 / passed }
}

async function countLines(processes) {
  const logs = await Promise.all(processes.map((process) => process.getLogs()))
  return logs.reduce((sum, { stdout }) => sum + stdout.split('\n').length - 1, 0)
}
