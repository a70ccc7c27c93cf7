/** Many concurrent jobs, and many in a row. */
import { expect, it } from 'vitest'
import { withJobs } from '../helpers/jobs.js'

it('20 concurrent starts all run', () =>
  withJobs(async ({ jobs }) => {
    const started = await Promise.all(
      Array.from({ length: 20 }, (_, index) => jobs.start({ command: `echo ${index}; exit ${index}` })),
    )
    expect(new Set(started.map(({ jobId }) => jobId)).size).toBe(20)
    for (const [index, job] of started.entries()) {
      expect(await jobs.wait(job)).toMatchObject({ exitCode: index })
      expect((await jobs.read(job)).raw).toBe(`${index}\n`)
    }
  }))

it(
  '150 jobs of a few milliseconds, polled hard, are never once crashed',
  () =>
    withJobs(async ({ jobs }) => {
      let polls = 0
      const run = async (index: number) => {
        const job = await jobs.start({ command: ['bash', '-c', `exit ${index % 200}`] })
        for (;;) {
          const status = await jobs.status(job)
          polls++
          expect(status.state).not.toBe('crashed')
          if (status.state === 'exited') return expect(status.exitCode).toBe(index % 200)
        }
      }
      for (let index = 0; index < 150; index += 10)
        await Promise.all(Array.from({ length: 10 }, (_, offset) => run(index + offset)))
      expect(polls).toBeGreaterThan(150)
    }),
  60_000,
)
