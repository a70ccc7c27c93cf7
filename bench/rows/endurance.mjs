/** Many commands in one session: the host's resources before and after. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Sandbox } from 'nacre'
import { collectGarbage, ownUse } from '../processes.mjs'

export const title = 'Many commands in one session'
export const variants = ['']

export async function measure(_variant, { quick }) {
  const commands = quick ? 2000 : 10_000
  const sandbox = new Sandbox()
  // V8's young generation grows to its final size under the first ten thousand short-lived objects of any kind.
  await repeat(sandbox, commands)
  const before = await use()
  await repeat(sandbox, commands)
  const after = await use()
  await sandbox.destroy()
  return { commands, before, after }
}

async function repeat(sandbox, times) {
  for (let count = 0; count < times; count++) {
    const { stdout } = await sandbox.exec('echo hi')
    if (stdout !== 'hi\n') throw new Error(`echo gave ${JSON.stringify(stdout)}`)
  }
}

/** Long enough after the last command for the standby to be forked. */
async function use() {
  await sleep(300)
  collectGarbage()
  return ownUse()
}
