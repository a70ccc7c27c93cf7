/** The call that starts a remote job is killed at random moments. */
import { rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import * as proc from '../../../__test__/helpers/proc.js'
import { withRandom } from '../../../__test__/helpers/random.js'
import { until } from '../../../__test__/helpers/until.js'
import { inEveryShell, itRemotely, type RemotePlace } from './places.js'

inEveryShell('remote jobs that are cut', (shell) => {
  itRemotely(shell, 'SIGKILL of the starting call leaves an attachable job or nothing', (place) =>
    withRandom(async (random) => {
      const { jobs, root, calls } = place
      await jobs.list()
      const seen = { started: 0, cut: 0 }
      for (let round = 0; round < 10; round++) {
        const jobId = `cut-${round}`
        const starting = jobs.start({ command: 'sleep 600 & sleep 600', jobId }).then(
          () => 'started' as const,
          () => 'cut' as const,
        )
        await sleep(random.next() * 60)
        for (const call of calls) call.kill('SIGKILL')
        seen[await starting]++
      }
      expect(seen.cut).toBeGreaterThan(0)
      await expectAllAttachable(place)
      // The stages of starts that were cut short are swept by the list of the next day; nothing of them runs.
      for (const name of proc.entries(root))
        if (/^@(new|part)-/.test(name)) rmSync(`${root}/${name}`, { recursive: true })
    }),
  )
})

/** Everything that runs belongs to a job that can be found. A start may still be under way when its call is dead. */
async function expectAllAttachable({ jobs, tag }: RemotePlace): Promise<void> {
  await until(
    async () => {
      for (const { jobId } of await jobs.list()) {
        expect((await jobs.attach(jobId))?.jobId).toBe(jobId)
        await jobs.cancel(jobId, { graceMs: 500 })
      }
      return proc.tagged(tag).length === 0 || undefined
    },
    () => `in no job: ${proc.tagged(tag).map(proc.show).join(', ')}`,
    20_000,
  )
}
