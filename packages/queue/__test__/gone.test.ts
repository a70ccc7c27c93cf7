/** Jobs that are not in the queue any more, or never were what nacre adds: calls on them end. */
import { Queue } from 'bullmq'
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { ended, outputOf, withQueue } from './place.js'

describe('a job that has left the queue', () => {
  it(
    'by the tools of BullMQ ends a wait for it',
    () =>
      withQueue(async ({ queue, redis }) => {
        const bull = new Queue('test', { connection: { port: redis.port } })
        try {
          await queue.add({ id: 'drained', command: 'true' })
          const waiting = ended(queue, 'drained', 18_000)
          waiting.catch(() => {})
          // The wait has begun when it has looked at the job.
          await queue.get('drained')
          await bull.drain()
          await expect(waiting).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
        } finally {
          await bull.close()
        }
      }),
    30_000,
  )

  it('has no logs to wait for', () =>
    withQueue(async ({ queue, worker }) => {
      await worker('one')
      await queue.add({ id: 'once', command: 'echo out' })
      await ended(queue, 'once')
      const missing = { code: 'JOB_NOT_FOUND' }
      for (const follow of [true, false]) {
        await expect(outputOf(queue, 'never', { attempt: 1, follow })).rejects.toMatchObject(missing)
        await expect(outputOf(queue, 'once', { attempt: 2, follow })).rejects.toMatchObject(missing)
      }
      expect((await outputOf(queue, 'once', { attempt: 1, follow: true })).toString()).toBe('out\n')
    }))
})

describe('a job of another program', () => {
  it('is not one that can be cancelled, whatever its data is', () =>
    withQueue(async ({ queue, redis }) => {
      const client = new Redis(redis.port)
      try {
        for (const [index, data] of ['null', '5', '[]', 'no JSON', '{"uid":7}', '['.repeat(5000)].entries()) {
          await client.hset(`bull:test:odd${index}`, { data, name: 'job', opts: '{}', timestamp: '1' })
          await expect(queue.cancel(`odd${index}`), data.slice(0, 20)).rejects.toMatchObject({
            code: 'JOB_NOT_FOUND',
          })
        }
      } finally {
        client.disconnect()
      }
    }))
})
