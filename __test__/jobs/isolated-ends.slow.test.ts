/** The ends of many isolated jobs. */
import { expect, it } from 'vitest'
import { withJobs } from '../helpers/jobs.js'

// A supervisor that misses the end of its last child looks again after two seconds. It missed every fourth one, which takes
// these jobs beyond the limit of a test.
it('a supervisor notices the end of its namespace', () =>
  withJobs(
    async ({ jobs }) => {
      for (let round = 0; round < 200; round++) {
        const job = await jobs.start({ command: 'true' })
        await jobs.wait(job)
        await jobs.cancel(job)
        expect(await jobs.status(job)).toMatchObject({ exitCode: 0, reason: 'exit', alive: false })
        await jobs.remove(job)
      }
    },
    { isolation: { filesystem: { write: ['.'], hide: ['/home'] }, network: 'none', processes: 'own' } },
    '/var/tmp',
  ))
