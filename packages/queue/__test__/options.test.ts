/** Bad options are refused before anything happens, and the message names the option and its bounds. */

import {
  JobQueue,
  type JobQueueOptions,
  JobWorker,
  type JobWorkerOptions,
  type QueueAddOptions,
} from '@nacre/queue'
import { Sandbox } from 'nacre'
import { afterAll, describe, expect, it } from 'vitest'

const redis = 'redis://127.0.0.1:1'
const sandbox = new Sandbox()
const queue = new JobQueue({ name: 'test', redis })
afterAll(async () => {
  await queue.close()
  await sandbox.destroy()
})

describe('queue.add', () => {
  const cases: Array<[string, unknown, string]> = [
    ['no command', {}, 'command must be given'],
    [
      'a retry without attempts',
      { command: 'true', onHostLost: 'retry' },
      "onHostLost: 'retry' needs attempts",
    ],
    ['much input', { command: 'cat', input: 'x'.repeat(1024 * 1024) }, 'at most 1048576 characters as JSON'],
  ]
  for (const [name, options, message] of cases)
    it(`refuses ${name}`, async () => {
      const refused = expect(queue.add(options as QueueAddOptions)).rejects
      await refused.toMatchObject({ name: 'OptionError', message: expect.stringContaining(message) })
    })
})

describe('a queue', () => {
  const cases: Array<[string, unknown, string]> = [['no Redis', { name: 'a' }, 'needs name and redis']]
  for (const [name, options, message] of cases)
    it(`refuses ${name}`, () => {
      expect(() => new JobQueue(options as JobQueueOptions)).toThrow(message)
    })

  it('refuses bad ids', async () => {
    await expect(queue.get('a/b')).rejects.toMatchObject({ code: 'INVALID_ID' })
    await expect(queue.cancel('')).rejects.toMatchObject({ code: 'INVALID_ID' })
  })

  it('that is closed rejects its calls', async () => {
    const closed = new JobQueue({ name: 'test', redis })
    await closed.close()
    await closed.close()
    await expect(closed.get('x')).rejects.toMatchObject({ code: 'ABORT_ERR' })
    await expect(closed.add({ command: 'true' })).rejects.toMatchObject({ code: 'ABORT_ERR' })
  })
})

describe('a worker', () => {
  const good = { name: 'a', redis, host: 'one', jobs: sandbox.jobs }
  const cases: Array<[string, unknown, string]> = [
    ['no host', { name: 'a', redis, jobs: sandbox.jobs }, 'needs name, redis, jobs and host'],
    ['an absence below the lease', { ...good, absence: 1000 }, 'absence must be at least lease'],
  ]
  for (const [name, options, message] of cases)
    it(`refuses ${name}`, () => {
      expect(() => new JobWorker(options as JobWorkerOptions)).toThrow(message)
    })
})
