/** The shell is replaced, a command leaves a process behind, and the next command times out. */
import { expect } from 'vitest'
import { isRest, itInEveryMode } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { rejectionOf } from '../helpers/thrown.js'

const ROUNDS = isRest ? 100 : 10

/** Ends of the shell that a standby survives. */
const ends = ['kill -9 $$', 'exec true', '( (kill -9 $$); : ); sleep 0.01']

itInEveryMode(
  'a timeout kills no process of an earlier command after the shell was replaced',
  async ({ sandbox }) => {
    for (let round = 0; round < ROUNDS; round++) {
      for (const end of ends) {
        // No pause: the command must begin before the supervisor has reported the group of the new shell.
        const calls = [sandbox.exec(end), sandbox.exec('sleep 1000 & echo $!')] as const
        const job = Number((await calls[1]).stdout)
        expect((await calls[0]).sessionRestarted).toBe(true)
        expect(await rejectionOf(sandbox.exec('sleep 1000', { timeout: 5 }))).toMatchObject({
          code: 'COMMAND_TIMEOUT',
        })
        expect(proc.isAlive(job), `${end}, round ${round}`).toBe(true)
        proc.kill(job)
      }
    }
  },
)
