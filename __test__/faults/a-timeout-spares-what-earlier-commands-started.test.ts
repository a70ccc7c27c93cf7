/** The shell is replaced, a command leaves a process behind, and the next command times out. */
import { expect, it } from 'vitest'
import type { Workplace } from '../helpers/invariants.js'
import { isRest, itInEveryMode, modes, withSandboxIn } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { rejectionOf } from '../helpers/thrown.js'

const ROUNDS = isRest ? 100 : 10

/** Ends of the shell that a standby survives. */
const ends = ['kill -9 $$', 'exec true', '( (kill -9 $$); : ); sleep 0.01']

async function replaceAndTimeOut({ sandbox }: Workplace): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) {
    for (const end of ends) {
      const nap = proc.uniqueSleep()
      // No pause: the command must begin before the supervisor has reported the group of the new shell.
      const calls = [sandbox.exec(end), sandbox.exec('sleep 1000 & echo $!')] as const
      const job = Number((await calls[1]).stdout)
      expect((await calls[0]).sessionRestarted).toBe(true)
      expect(await rejectionOf(sandbox.exec(nap, { timeout: 20 - (round % 4) * 5 }))).toMatchObject({
        code: 'COMMAND_TIMEOUT',
      })
      expect([proc.isAlive(job), proc.runs(nap)], `${end}, round ${round}`).toEqual([true, false])
      proc.kill(job)
    }
  }
}

itInEveryMode(
  'a timeout kills no process of an earlier command after the shell was replaced, and its own ones',
  replaceAndTimeOut,
)

// Its shells may not choose the groups of their forks.
for (const mode of process.geteuid?.() === 0 ? modes : []) {
  it(`a timeout does so in a session of another user, ${mode.name}`, () =>
    withSandboxIn(mode, replaceAndTimeOut, { options: { user: { uid: 200_000, gid: 200_000 }, cwd: '/' } }))
}
