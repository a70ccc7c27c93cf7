/** From the call to the first piece of output, read as a stream: many in a row, alternating between peers. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Sandbox } from 'nacre'
import { summarizeEach } from '../stats.mjs'

export const title = 'The first byte of `echo hi`'
export const variants = ['']
const BURST = 20

export async function measure(_variant, { quick }) {
  const sandbox = new Sandbox()
  const actions = { nacre: () => byNacre(sandbox), 'child_process.spawn': bySpawn }
  const samples = { nacre: [], 'child_process.spawn': [] }
  for (let round = 0; round <= (quick ? 4 : 20); round++) {
    for (const [name, action] of Object.entries(actions)) {
      for (let run = 0; run < BURST; run++) {
        const taken = await action()
        if (round > 0) samples[name].push(taken)
      }
    }
  }
  await sandbox.destroy()
  return summarizeEach(samples)
}

/** Both wait for the end of the command after the first byte, so that the next measurement starts undisturbed. */
async function byNacre(sandbox) {
  const begun = performance.now()
  let first = 0
  for await (const { type } of sandbox.execStream('echo hi')) {
    if (type === 'stdout') first ||= performance.now() - begun
  }
  return first
}

async function bySpawn() {
  const begun = performance.now()
  let first = 0
  const child = spawn('bash', ['-c', 'echo hi'], { stdio: ['ignore', 'pipe', 'pipe'] })
  child.stdout.on('data', () => {
    first ||= performance.now() - begun
  })
  await once(child, 'close')
  return first
}
