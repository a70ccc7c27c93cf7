/** 64 concurrent commands, each a program: in 16 sessions, where they queue four deep, and with child_process. */
import { Sandbox } from 'nacre'
import * as childProcess from '../peers/child-process.mjs'
import { roundRobin, summarizeEach } from '../stats.mjs'

export const title = '64 programs at once, in 16 sessions'
export const variants = ['/bin/true', 'ls /']
const SESSIONS = 16
const COMMANDS = 64

export async function measure(command, { quick }) {
  const sandbox = new Sandbox()
  const { run } = await childProcess.open()
  const ids = Array.from({ length: SESSIONS }, (_, index) => `s${index}`)
  await Promise.all(ids.map((id) => sandbox.createSession({ id })))
  const expected = (await run(command)).stdout
  const all = async (action) => {
    const results = await Promise.all(Array.from({ length: COMMANDS }, (_, index) => action(index)))
    if (results.some(({ stdout }) => stdout !== expected))
      throw new Error(`${command} printed something else`)
  }
  const actions = {
    nacre: () => all((index) => sandbox.exec(command, { sessionId: ids[index % SESSIONS] })),
    'child_process.exec': () => all(() => run(command)),
  }
  const samples = await roundRobin(actions, { rounds: quick ? 3 : 12, warmups: 1 })
  await sandbox.destroy()
  return summarizeEach(samples)
}
