/** A process is started while the snapshot that it starts from is being replaced. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect } from 'vitest'
import { itInEveryMode } from '../helpers/modes.js'

describe('startProcess', () => {
  // What the commands change makes the snapshot old, and it is renewed in the pauses, some ms after the fork of the next
  // process: the lengths of the pauses meet every moment of both.
  itInEveryMode('waits for no fork that a replaced snapshot was asked for', async ({ sandbox }) => {
    const names = ['a', 'b', 'c', 'd']
    const sessions = await Promise.all(names.map((id) => sandbox.createSession({ id })))
    await Promise.all(
      sessions.map(async (session, index) => {
        for (let round = 0; round < 60; round++) {
          await session.exec(`x=${round}`)
          const started = await session.startProcess('echo $x', { timeout: 5000 })
          expect(await started.waitForExit()).toMatchObject({ exitCode: 0 })
          expect((await started.getLogs()).stdout).toBe(`${round}\n`)
          await session.exec(`y=${round}`)
          await sleep((round * 7 + index * 3) % 13)
          await session.exec(round % 3 === 0 ? 'true' : '/bin/true')
        }
      }),
    )
    await sandbox.cleanupCompletedProcesses()
  })
})
