/** Background jobs do not delay the end of a command. The conformance tables cover their output, the invariants their end. */
import { expect } from 'vitest'
import { itInEveryMode } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { rejectionOf } from '../helpers/thrown.js'

itInEveryMode('a background job does not hold its command up, and destroy ends it', async ({ sandbox }) => {
  const nap = proc.uniqueSleep()
  expect(await sandbox.exec(`${nap} & echo hi`)).toMatchObject({ stdout: 'hi\n', exitCode: 0 })
  await proc.untilRuns(nap)
})

itInEveryMode(
  'a background job survives the time-outs of later commands, also after one that needed SIGKILL',
  async ({ sandbox }) => {
    const late = (command: string) =>
      rejectionOf(sandbox.exec(command, { timeout: 200, forceKillAfterDelay: 100 }))
    for (const stubborn of ["trap '' TERM; sleep 60", "(trap '' TERM; while :; do sleep 60; done)"]) {
      expect(await late(stubborn)).toMatchObject({ code: 'COMMAND_TIMEOUT' })
      const nap = proc.uniqueSleep()
      await sandbox.exec(`${nap} &`)
      await proc.untilRuns(nap)
      for (const command of ['sleep 60', stubborn])
        expect(await late(command)).toMatchObject({ code: 'COMMAND_TIMEOUT' })
      expect(proc.runs(nap)).toBe(true)
    }
  },
)

itInEveryMode('deleting a session ends its background jobs and no others', async ({ sandbox }) => {
  const [mine, other] = [proc.uniqueSleep(), proc.uniqueSleep()]
  const session = await sandbox.createSession({ id: 'jobs' })
  await session.exec(`${mine} & setsid ${mine} & (${mine} &)`)
  await sandbox.exec(`${other} &`)
  for (const job of [mine, other]) await proc.untilRuns(job)
  await sandbox.deleteSession('jobs')
  expect(proc.runs(mine)).toBe(false)
  expect(proc.runs(other)).toBe(true)
})
