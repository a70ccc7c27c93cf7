/** Deaths by SIGKILL of the supervisor and of the guard of a job. */
import { expect } from 'vitest'
import { expectNoProcess, UNKNOWN } from '../../../__test__/helpers/jobs.js'
import * as proc from '../../../__test__/helpers/proc.js'
import { inEveryShell, isMain, itRemotely, untilPrintedBy } from './places.js'

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
        ...UNKNOWN,
        state: 'crashed',
        reason: 'killed',
        alive: false,
      })
      await expectNoProcess(tag, 10_000)
      expect(proc.runs(nap)).toBe(false)
      // The guard kills one process after another, so bash can print what has killed its program.
      expect((await jobs.read(job)).raw).toMatch(/^up\n/)
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
    itRemotely(shell, 'short jobs, polled hard, are never once crashed', async ({ jobs }) => {
      let seen = 0
      const run = async (index: number) => {
        // One in five lasts long enough to be seen before its end; on a busy machine the others rarely are.
        const job = await jobs.start({ command: `${index % 5 === 4 ? 'sleep 0.3; ' : ''}exit ${index}` })
        for (;;) {
          const { state, exitCode } = await jobs.status(job)
          expect(state).not.toBe('crashed')
          if (state === 'exited') return expect(exitCode).toBe(index)
          seen++
        }
      }
      for (let round = 0; round < 2 || (seen === 0 && round < 20); round++)
        await Promise.all(Array.from({ length: 5 }, (_, index) => run(round * 5 + index)))
      expect(seen).toBeGreaterThan(0)
    })
})

/** The child of the supervisor that is the guard. */
function guardOf(supervisor: number): number {
  const guard = proc.descendants(supervisor).find(({ pid }) => proc.commandLine(pid).includes(' guard '))
  if (guard === undefined) throw new Error('the supervisor has no guard')
  return guard.pid
}
