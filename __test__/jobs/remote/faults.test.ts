/** Deaths by SIGKILL at any moment: of the call that starts a job, of its supervisor, of its guard. */
import { rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { expectNoProcess } from '../../helpers/jobs.js'
import * as proc from '../../helpers/proc.js'
import { withRandom } from '../../helpers/random.js'
import {
  inEveryShell,
  isMain,
  itRemotely,
  type RemotePlace,
  untilPrintedBy,
} from '../../helpers/remote-jobs.js'
import { until } from '../../helpers/until.js'

inEveryShell('faults of remote jobs', (shell) => {
  itRemotely(
    shell,
    'SIGKILL of the supervisor takes the workload along: crashed, output kept',
    async (place) => {
      const { jobs, tag } = place
      const nap = proc.uniqueSleep()
      const job = await jobs.start({ command: `setsid ${nap} & (setsid ${nap} &); echo up; ${nap}; echo` })
      await untilPrintedBy(jobs, job, 'up')
      await proc.untilRuns(nap, 3)
      proc.kill(job.pgid)
      expect(await jobs.wait(job)).toEqual({
        state: 'crashed',
        exitCode: null,
        reason: 'killed',
        alive: false,
      })
      await expectNoProcess(tag, 10_000)
      expect(proc.runs(nap)).toBe(false)
      expect((await jobs.read(job)).raw).toBe('up\n')
      await jobs.cancel(job)
      expect(await jobs.attach(job.jobId)).toEqual(job)
    },
  )

  itRemotely(
    shell,
    'SIGKILL of the guard ends the job as crashed, and of both a cancel clears away',
    async (place) => {
      const { jobs, tag } = place
      const first = await jobs.start({ command: 'echo up; sleep 600; echo' })
      await untilPrintedBy(jobs, first, 'up')
      proc.kill(guardOf(first.pgid))
      expect(await jobs.wait(first)).toMatchObject({ state: 'crashed' })
      const second = await jobs.start({ command: 'setsid sleep 600 & echo up; sleep 600; echo' })
      await untilPrintedBy(jobs, second, 'up')
      const guard = guardOf(second.pgid)
      for (const pid of [second.pgid, guard]) process.kill(pid, 'SIGSTOP')
      for (const pid of [guard, second.pgid]) proc.kill(pid)
      expect(await jobs.wait(second)).toMatchObject({ state: 'crashed' })
      await jobs.cancel(second)
      await expectNoProcess(tag, 10_000)
    },
  )

  if (isMain(shell))
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

  if (isMain(shell))
    itRemotely(shell, 'short jobs, polled hard, are never once crashed', async ({ jobs }) => {
      let seen = 0
      const run = async (index: number) => {
        const job = await jobs.start({ command: `exit ${index}` })
        for (;;) {
          const { state, exitCode } = await jobs.status(job)
          expect(state).not.toBe('crashed')
          if (state === 'exited') return expect(exitCode).toBe(index)
          seen++
        }
      }
      // Until some were seen before they had ended: on a busy machine few are.
      for (let round = 0; round < 2 || (seen === 0 && round < 20); round++)
        await Promise.all(Array.from({ length: 5 }, (_, index) => run(round * 5 + index)))
      expect(seen).toBeGreaterThan(0)
    })
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

/** The child of the supervisor that is the guard. */
function guardOf(supervisor: number): number {
  const guard = proc.descendants(supervisor).find(({ pid }) => proc.commandLine(pid).includes(' guard '))
  if (guard === undefined) throw new Error('the supervisor has no guard')
  return guard.pid
}
