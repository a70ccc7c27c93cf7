/** Hosts, supervisors and guards that are killed at random moments of a start: 200 of them. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { startHost } from '../helpers/host.js'
import { type JobPlace, withJobs } from '../helpers/jobs.js'
import * as proc from '../helpers/proc.js'
import { withRandom } from '../helpers/random.js'
import { until } from '../helpers/until.js'

describe('200 random cuts during start leave either an attachable job or nothing:', () => {
  // Three starts are under way whenever a host is killed: 60 of the 200.
  it(
    'of the host',
    () =>
      withRandom((random) =>
        withJobs(async (place) => {
          for (let round = 0; round < 20; round++) {
            const host = startHost(`
          const { jobs } = new Sandbox({ jobsRoot: ${JSON.stringify(place.root)} })
          const start = (index) => jobs.start({ command: 'sleep 600 & sleep 600', jobId: 'r${round}-' + index })
            .then(({ jobId }) => { print('id ' + jobId + ';'); start(index + 1) })
          print('ready'); start(1); start(1000); start(2000)
        `)
            await host.printed('ready')
            await sleep(random.next() * 60)
            proc.kill(host.pid)
            await host.ended()
            for (const [, id = ''] of host.output().matchAll(/id (\S+);/g))
              expect((await place.jobs.attach(id))?.jobId).toBe(id)
            await expectAllAttachable(place, host.tag)
          }
        }),
      ),
    120_000,
  )

  it(
    'of the supervisor and of the guard',
    () =>
      withRandom((random) =>
        withJobs(async (place) => {
          const seen = { started: 0, refused: 0 }
          for (let round = 0; round < 140; round++) {
            const jobId = `cut-${round}`
            const starting = place.jobs.start({ command: 'sleep 600 & sleep 600', jobId })
            const settled = starting.then(
              () => 'started' as const,
              () => 'refused' as const,
            )
            await sleep(random.next() * 6)
            const victims = supervisors(place.root)
            const victim = victims[random.below(victims.length)]
            if (victim !== undefined) proc.kill(victim)
            const outcome = await settled
            seen[outcome]++
            const attached = await place.jobs.attach(jobId)
            expect(attached !== null).toBe(outcome === 'started')
            if (outcome === 'refused') expect(proc.entries(place.root)).not.toContain(jobId)
          }
          expect(seen.started).toBeGreaterThan(0)
          await expectAllAttachable(place, place.tag)
        }),
      ),
    120_000,
  )
})

/**
 * Everything that runs belongs to a job that can be found: when those are cancelled and removed, nothing is left. A start
 * that its dead host had asked for may still be under way, and its job be found a moment later. (A process has no
 * environment, and so no tag, in the instant in which it becomes another program.)
 */
async function expectAllAttachable({ jobs, root }: JobPlace, tag: string): Promise<void> {
  await until(
    async () => {
      for (const { jobId } of await jobs.list()) {
        expect((await jobs.attach(jobId))?.jobId).toBe(jobId)
        await jobs.cancel(jobId, { graceMs: 500 })
        await jobs.remove(jobId)
      }
      return (proc.tagged(tag).length === 0 && proc.entries(root).length === 0) || undefined
    },
    () => `in no job: ${proc.tagged(tag).map(proc.show).join(', ')}; ${proc.entries(root).join(', ')}`,
    30_000,
  )
}

/** Supervisors and guards of jobs whose standard input was ours to give. */
function supervisors(root: string): number[] {
  const own = proc
    .listProcesses()
    .filter(({ pid, state }) => state !== 'Z' && proc.commandLine(pid).endsWith('--job'))
  const tag = /nacre-jobs-\d+-\d+/.exec(root)?.[0] ?? ''
  return own.filter(({ pid }) => proc.carries(tag, pid)).map(({ pid }) => pid)
}
