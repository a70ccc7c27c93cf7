/** 50 concurrent commands: in 50 existing sessions, in 50 new sessions, and with child_process. */

import { Sandbox } from 'nacre'
import * as childProcess from '../peers/child-process.mjs'
import { summarizeEach, time } from '../stats.mjs'

export const title = '50 at once'
export const variants = ['']
const COUNT = 50

export async function measure(_variant, { quick }) {
  const sandbox = new Sandbox()
  const { run } = await childProcess.open()
  const all = (action) => Promise.all(Array.from({ length: COUNT }, (_, index) => action(index)))
  const ready = await all(() => sandbox.createSession())
  const samples = {
    'nacre, sessions that are there': [],
    'nacre, new sessions': [],
    'child_process.exec': [],
  }
  for (let round = 0; round < (quick ? 3 : 20); round++) {
    samples['nacre, sessions that are there'].push(
      await time(() => all((index) => ready[index].exec('echo hi'))),
    )
    samples['child_process.exec'].push(await time(() => all(() => run('echo hi'))))
    let made = []
    samples['nacre, new sessions'].push(
      await time(async () => {
        made = await all(() => sandbox.createSession())
        await Promise.all(made.map((session) => session.exec('echo hi')))
      }),
    )
    await Promise.all(made.map((session) => sandbox.deleteSession(session.id)))
  }
  await sandbox.destroy()
  return summarizeEach(samples)
}
