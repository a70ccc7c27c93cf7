/**
 * From the call of startProcess to the pid, and to the first output. The process runs a session function that uses a
 * variable which is not exported. In an idle session, and in one that is running a command.
 *
 * Each process ends by itself, and the next starts so much later that the session is idle again.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Sandbox } from 'nacre'
import { summarizeEach } from '../stats.mjs'

export const title = 'Start of a background process'
export const variants = ['idle session', 'while a command runs']
const WARMUPS = 10
const REST_MS = 15

export async function measure(variant, { quick }) {
  const sandbox = new Sandbox({ cwd: '/' })
  await sandbox.exec('word=hidden; say() { echo "$word in $PWD"; }')
  const end = variant === 'idle session' ? async () => {} : await runForeground(sandbox)
  const samples = { pid: [], output: [] }
  for (let run = 0; run < WARMUPS + (quick ? 50 : 200); run++) {
    await sleep(REST_MS)
    const taken = await start(sandbox)
    if (run < WARMUPS) continue
    samples.pid.push(taken.pid)
    samples.output.push(taken.output)
  }
  await end()
  await sandbox.destroy()
  return summarizeEach(samples)
}

async function start(sandbox) {
  let [output, text] = [0, '']
  const begun = performance.now()
  const process = await sandbox.startProcess('say', {
    onOutput: (_stream, data) => {
      output ||= performance.now() - begun
      text += data
    },
  })
  const pid = performance.now() - begun
  const { exitCode } = await process.waitForExit()
  while (output === 0) await sleep(1)
  if (exitCode !== 0 || text !== 'hidden in /\n') throw new Error(`it printed ${JSON.stringify(text)}`)
  await sandbox.cleanupCompletedProcesses()
  return { pid, output }
}

/** Starts the command, and returns a function that ends it. */
async function runForeground(sandbox) {
  const stream = sandbox.execStream('sleep 600')
  const events = stream[Symbol.asyncIterator]()
  await events.next()
  return async () => {
    await stream.kill()
    await stream.result
  }
}
