/** From nothing to the first answer of a new session. */

import { Sandbox } from 'nacre'
import * as fifoEngine from '../peers/fifo-engine.mjs'
import { roundRobin, summarizeEach } from '../stats.mjs'

export const title = 'Start of a session, to its first answer'
export const variants = ['']

export async function measure(_variant, { quick }) {
  const sandbox = new Sandbox()
  await sandbox.exec('true')
  const ended = []
  const actions = {
    nacre: async () => {
      const session = await sandbox.createSession()
      await session.exec('true')
      ended.push(() => sandbox.deleteSession(session.id))
    },
    'bash over FIFOs': async () => {
      const engine = await fifoEngine.open()
      await engine.run('true')
      ended.push(() => engine.close())
    },
  }
  const samples = { nacre: [], 'bash over FIFOs': [] }
  for (let round = 0; round < (quick ? 30 : 200); round++) {
    const taken = await roundRobin(actions, { rounds: 1 })
    for (const name of Object.keys(samples)) samples[name].push(...taken[name])
    await Promise.all(ended.splice(0).map((end) => end()))
  }
  await sandbox.destroy()
  return summarizeEach(samples)
}
