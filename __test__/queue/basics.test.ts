/** Jobs of a queue run on hosts, and their results are true. */
import { describe, expect, it } from 'vitest'
import { ended, outputOf, withQueue } from '../helpers/queue.js'

describe('jobs', () => {
  it('run once and give their exit code, times, host and output', () =>
    withQueue(async ({ queue, worker, counted, starts, rootOf }) => {
      await worker('one')
      const added = await queue.add({ id: 'first', command: counted('first', 'echo out; echo err >&2') })
      expect(added).toMatchObject({ id: 'first', attempt: 1 })
      const job = await ended(queue, 'first')
      expect(job).toMatchObject({
        id: 'first',
        state: 'completed',
        attempt: 1,
        host: 'one',
        failedReason: null,
      })
      expect(job.result).toMatchObject({
        exitCode: 0,
        signal: null,
        reason: 'exit',
        error: null,
        host: 'one',
        attempt: 1,
        bytes: 8,
      })
      const { startedAt, endedAt, duration } = job.result ?? {}
      expect(endedAt?.getTime()).toBe((startedAt?.getTime() ?? 0) + (duration ?? 0))
      expect((await outputOf(queue, 'first')).toString()).toBe('out\nerr\n')
      expect(starts('first')).toBe(1)
      expect(rootOf('one')).toContain('jobs-one')
    }))
})
