/** A cancel reaches a job in every state and on every host. */

import { Redis } from 'ioredis'
import { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { expectNoProcess } from '../../../__test__/helpers/jobs.js'
import * as proc from '../../../__test__/helpers/proc.js'
import { holdingProxy } from '../../../__test__/helpers/tcp-proxy.js'
import { until } from '../../../__test__/helpers/until.js'
import { ended, outputOf, withQueue } from './place.js'

describe('cancel', () => {
  it('removes a job that waits or is delayed, and says so again the next time', () =>
    withQueue(async ({ queue, worker, counted, starts }) => {
      await queue.add({ id: 'waits', command: counted('waits', 'true') })
      await queue.add({ id: 'later', command: counted('later', 'true'), delay: 60_000 })
      await queue.add({ id: 'prior', command: counted('prior', 'true'), priority: 3 })
      for (const id of ['waits', 'later', 'prior']) {
        expect(await queue.cancel(id)).toBe('removed')
        expect(await queue.get(id)).toBeNull()
        expect(await queue.cancel(id)).toBe('removed')
      }
      await worker('one')
      await queue.add({ id: 'other', command: 'true' })
      await ended(queue, 'other')
      expect(starts('waits') + starts('later') + starts('prior')).toBe(0)
    }))

  it('kills everything of a job that runs, on its host, and the job is not tried again', () =>
    withQueue(async ({ queue, worker, counted, starts, untilStarted, tag }) => {
      await worker('one')
      await worker('two')
      const sleep = proc.uniqueSleep()
      const tree = `setsid ${sleep} & (trap '' TERM; ${sleep}; true) & ${sleep} & wait`
      await queue.add({ id: 'tree', attempts: 5, command: counted('tree', tree) })
      await untilStarted('tree')
      await proc.untilRuns(sleep, 3)
      expect(await queue.cancel('tree', { forceKillAfterDelay: 200 })).toBe('ended')
      await expectNoProcess(tag)
      const job = await queue.get('tree')
      expect(job).toMatchObject({ state: 'failed', attempt: 1, failedReason: 'the job was cancelled' })
      expect(job?.result).toMatchObject({ reason: 'cancelled' })
      expect(await queue.cancel('tree')).toBe('ended')
      expect(starts('tree')).toBe(1)
    }))

  it(
    'while the host is down takes effect when it is back',
    () =>
      withQueue(async ({ queue, worker, counted, starts, untilStarted, tag }) => {
        const first = await worker('one', { lease: 30_000 })
        await queue.add({ id: 'down', attempts: 3, command: counted('down', 'sleep 1000') })
        await untilStarted('down')
        await first.end('SIGKILL')
        expect(await queue.cancel('down', { timeout: 100 })).toBe('requested')
        expect(await queue.cancel('down', { timeout: 0 })).toBe('requested')
        await worker('one', { lease: 30_000 })
        expect(await ended(queue, 'down')).toMatchObject({
          state: 'failed',
          failedReason: 'the job was cancelled',
        })
        await expectNoProcess(tag)
        expect(starts('down')).toBe(1)
      }),
    30_000,
  )

  it('of a job that waits for its next attempt removes it', () =>
    withQueue(async ({ queue, worker, counted, starts }) => {
      await worker('one')
      await queue.add({
        id: 'backoff',
        attempts: 3,
        backoff: 60_000,
        command: counted('backoff', 'echo one; false'),
      })
      await until(
        async () => ((await queue.get('backoff'))?.state === 'delayed' ? true : undefined),
        () => 'not delayed',
      )
      expect((await outputOf(queue, 'backoff')).toString()).toBe('one\n')
      expect(await queue.cancel('backoff')).toBe('removed')
      expect(await queue.get('backoff')).toBeNull()
      expect(starts('backoff')).toBe(1)
    }))

  it(
    'of a job whose lock was lost still reaches its process',
    () =>
      withQueue(async ({ queue, worker, counted, starts, untilStarted, tag }) => {
        const first = await worker('one', { lease: 20_000 })
        await queue.add({ id: 'lockless', command: counted('lockless', 'sleep 1000') })
        await untilStarted('lockless')
        const second = await worker('two', { lease: 20_000 })
        first.signal('SIGSTOP')
        await second.printed('passed on to its host lockless')
        expect(await queue.cancel('lockless', { timeout: 0 })).toBe('requested')
        first.signal('SIGCONT')
        expect(await ended(queue, 'lockless')).toMatchObject({
          state: 'failed',
          failedReason: 'the job was cancelled',
        })
        await expectNoProcess(tag)
        expect(starts('lockless')).toBe(1)
      }),
    30_000,
  )

  it(
    'between the claim of a job and its start ends the job',
    () =>
      withQueue(async ({ queue, redis, worker, tag }) => {
        const proxy = await holdingProxy(redis.port, "return {'handed', owner}")
        const client = new Redis(redis.port)
        try {
          await worker('one', {
            redis: `redis://127.0.0.1:${proxy.port}`,
            lease: 20_000,
            lockDuration: 20_000,
          })
          await queue.add({ id: 'between', command: 'sleep 1000' })
          await until(
            async () => ((await queue.get('between'))?.host === 'one' ? true : undefined),
            () => 'not claimed',
          )
          expect(await queue.cancel('between', { timeout: 0 })).toBe('requested')
          await until(
            async () => ((await client.exists('nacre:bull:test:inbox:one')) === 0 ? true : undefined),
            () => 'the request has not arrived',
          )
          proxy.release()
          expect(await ended(queue, 'between')).toMatchObject({
            state: 'failed',
            failedReason: 'the job was cancelled',
          })
          await expectNoProcess(tag)
        } finally {
          client.disconnect()
          await proxy.close()
        }
      }),
    30_000,
  )

  it('of a completed job changes nothing, and of an unknown one is JOB_NOT_FOUND', () =>
    withQueue(async ({ queue, worker }) => {
      await worker('one')
      await queue.add({ id: 'good', command: 'true' })
      await ended(queue, 'good')
      expect(await queue.cancel('good')).toBe('ended')
      expect(await queue.get('good')).toMatchObject({ state: 'completed' })
      await expect(queue.cancel('unknown')).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
      await expect(queue.wait('unknown')).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
      await expect(outputOf(queue, 'unknown')).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
    }))

  it('on the host itself counts as a cancel of the queue', () =>
    withQueue(async ({ queue, worker, counted, starts, untilStarted, rootOf }) => {
      await worker('one')
      await queue.add({ id: 'local', attempts: 4, command: counted('local', 'sleep 1000') })
      await untilStarted('local')
      await using sandbox = new Sandbox({ jobsRoot: rootOf('one') })
      const [job] = await sandbox.jobs.list({ state: 'running' })
      await sandbox.jobs.cancel(job?.jobId ?? '', { graceMs: 100 })
      expect(await ended(queue, 'local')).toMatchObject({ state: 'failed', attempt: 1 })
      expect(starts('local')).toBe(1)
    }))
})
