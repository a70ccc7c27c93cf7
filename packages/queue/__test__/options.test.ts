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
    ['a blank command', { command: ' ' }, 'command must not be blank'],
    ['a whole number as id', { command: 'true', id: '12' }, 'id must be 1 to 100 characters'],
    ['a colon in the id', { command: 'true', id: 'a:b' }, 'id must be 1 to 100 characters'],
    [
      'a key of BullMQ as id',
      { command: 'true', id: 'wait' },
      "id must not be 'wait', which BullMQ uses itself",
    ],
    ['no attempts', { command: 'true', attempts: 0 }, 'attempts must be a whole number from 1'],
    [
      'a bad backoff',
      { command: 'true', backoff: { type: 'linear', delay: 1 } },
      "backoff.type must be 'fixed'",
    ],
    [
      'an unknown member of backoff',
      { command: 'true', backoff: { type: 'fixed', delay: 1, x: 1 } },
      'backoff has no option',
    ],
    [
      'a high priority',
      { command: 'true', priority: 2_097_152 },
      'priority must be a whole number from 0 to 2097151',
    ],
    ['a negative delay', { command: 'true', delay: -1 }, 'delay must be a number of milliseconds'],
    [
      'a retry without attempts',
      { command: 'true', onHostLost: 'retry' },
      "onHostLost: 'retry' needs attempts",
    ],
    ['an unknown choice', { command: 'true', onHostLost: 'wait' }, "onHostLost must be 'fail' or 'retry'"],
    ['a bad variable', { command: 'true', env: { 'A B': 'x' } }, 'env has the name "A B"'],
    ['an unknown option', { command: 'true', jobId: 'x' }, 'queue.add has no option "jobId"'],
    ['much input', { command: 'cat', input: 'x'.repeat(1024 * 1024) }, 'at most 1048576 characters as JSON'],
  ]
  for (const [name, options, message] of cases)
    it(`refuses ${name}`, async () => {
      const refused = expect(queue.add(options as QueueAddOptions)).rejects
      await refused.toMatchObject({ name: 'OptionError', message: expect.stringContaining(message) })
    })
})

describe('a queue', () => {
  const cases: Array<[string, unknown, string]> = [
    ['no Redis', { name: 'a' }, 'needs name and redis'],
    ['a colon in its name', { name: 'a:b', redis }, 'name must be 1 to 100 characters'],
    ['another URL', { name: 'a', redis: 'http://secret@host' }, 'redis must be a redis: or rediss: URL'],
    ['a blank in its prefix', { name: 'a', redis, prefix: 'a b' }, 'prefix must be 1 to 100 characters'],
  ]
  for (const [name, options, message] of cases)
    it(`refuses ${name}`, () => {
      expect(() => new JobQueue(options as JobQueueOptions)).toThrow(message)
    })

  it('never shows the password of Redis', () => {
    expect(() => new JobQueue({ name: 'a', redis: 'http://user:secret@host' })).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('secret') }),
    )
  })

  it('refuses bad ids and options in every call', async () => {
    await expect(queue.get('a/b')).rejects.toMatchObject({ code: 'INVALID_ID' })
    await expect(queue.cancel('')).rejects.toMatchObject({ code: 'INVALID_ID' })
    await expect(queue.wait('x', { timeout: 1 } as object)).rejects.toThrow(
      'queue.wait has no option "timeout"',
    )
    expect(() => queue.logs('x', { cursor: -1 })).toThrow('cursor must be a whole number of bytes')
    await expect(queue.list({ state: 'gone' as 'failed' })).rejects.toThrow("state must be one of 'waiting'")
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
    ['a host with a colon', { ...good, host: 'a:b' }, 'host must be 1 to 64 characters'],
    ['a sandbox as jobs', { ...good, jobs: sandbox }, 'its method start is missing'],
    ['no concurrency', { ...good, concurrency: 0 }, 'concurrency must be a whole number from 1'],
    ['a short lease', { ...good, lease: 10 }, 'lease must be a whole number from 1000'],
    ['an absence below the lease', { ...good, absence: 1000 }, 'absence must be at least lease'],
    [
      'a limit of none',
      { ...good, limiter: { max: 0, duration: 1 } },
      'limiter.max must be a whole number from 1',
    ],
  ]
  for (const [name, options, message] of cases)
    it(`refuses ${name}`, () => {
      expect(() => new JobWorker(options as JobWorkerOptions)).toThrow(message)
    })
})
