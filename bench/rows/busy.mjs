/**
 * A session runs `true` in a loop, as fast as it can. Meanwhile: how late is the end of a process with a timeout, counted
 * from its start, and how long does the kill of a command in another session take?
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Sandbox } from 'nacre'
import { summarizeEach, time } from '../stats.mjs'

export const title = 'Beside a loop of `true`'
export const variants = ['']
const TIMEOUT_MS = 50

export async function measure(_variant, { quick }) {
  const sandbox = new Sandbox()
  const other = await sandbox.createSession()
  let isDone = false
  const loop = (async () => {
    while (!isDone) await sandbox.exec('true')
  })()
  const samples = { 'timeout of a process': [], 'kill of another session': [] }
  for (let round = 0; round < (quick ? 10 : 60); round++) {
    const taken = await time(async () => {
      const process = await other.startProcess('exec sleep 600', { timeout: TIMEOUT_MS })
      await process.waitForExit()
    })
    samples['timeout of a process'].push(taken - TIMEOUT_MS)
    const stream = other.execStream('echo up; exec sleep 600')
    await stream[Symbol.asyncIterator]().next()
    await sleep(5)
    samples['kill of another session'].push(await time(() => Promise.all([stream.kill(), stream.result])))
  }
  isDone = true
  await loop
  await sandbox.destroy()
  return summarizeEach(samples)
}
