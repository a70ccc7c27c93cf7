/** Hosts that are lost or cut off, and Redis that is away: what takes a lease to happen. */
import { writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { expectNoProcess } from '../../../__test__/helpers/jobs.js'
import * as proc from '../../../__test__/helpers/proc.js'
import { stoppingProxy } from '../../../__test__/helpers/tcp-proxy.js'
import { until } from '../../../__test__/helpers/until.js'
import { ended, outputOf, withQueue } from './place.js'

/** Ends when the file appears. */
const untilFile = (file: string): string => `until [[ -e ${file} ]]; do sleep 0.02; done`

describe('a host', () => {
  it(
    'that is gone for good fails its job with HOST_LOST after its lease',
    () =>
      withQueue(async ({ queue, worker, counted, starts, untilStarted, base }) => {
        const first = await worker('gone')
        await queue.add({ id: 'lost', attempts: 3, command: counted('lost', untilFile(`${base}/go`)) })
        await untilStarted('lost')
        const killed = performance.now()
        await first.end('SIGKILL')
        await worker('other')
        const job = await ended(queue, 'lost', 20_000)
        // The last renewal was up to a fifth of a lease before the end.
        expect(performance.now() - killed).toBeGreaterThan(2000)
        expect(job).toMatchObject({ state: 'failed', attempt: 1 })
        expect(job.failedReason).toContain("the host 'gone' was lost")
        expect(job.result).toMatchObject({
          reason: 'host-lost',
          code: 'HOST_LOST',
          host: 'gone',
          exitCode: null,
        })
        expect(starts('lost')).toBe(1)
        await expect(outputOf(queue, 'lost')).rejects.toMatchObject({ code: 'HOST_LOST' })
      }),
    40_000,
  )

  it(
    'that is lost gives its job to another one, where the job asks for that, and ends its process when it is back',
    () =>
      withQueue(async ({ queue, worker, counted, starts, untilStarted, base }) => {
        const first = await worker('gone')
        const command = counted(
          'moved',
          `if [[ ! -e ${base}/second ]]; then touch ${base}/second; sleep 1000; fi; echo ok`,
        )
        await queue.add({ id: 'moved', attempts: 2, onHostLost: 'retry', command })
        await untilStarted('moved')
        await first.end('SIGKILL')
        await worker('other')
        const job = await ended(queue, 'moved', 20_000)
        expect(job).toMatchObject({ state: 'completed', attempt: 2, host: 'other' })
        expect(starts('moved')).toBe(2)
        expect((await outputOf(queue, 'moved')).toString()).toBe('ok\n')
        // The first attempt still sleeps; expectNoProcess at the end would find it after its host is back.
        const back = await worker('gone')
        await back.printed('attached to moved')
        await until(
          async () => ((await outputOf(queue, 'moved', { attempt: 1 })).length === 0 ? true : undefined),
          () => 'the first attempt cannot be read',
        )
      }),
    40_000,
  )
})

describe('hosts that share a directory of jobs', () => {
  it(
    'leave the jobs of each other alone',
    () =>
      withQueue(async ({ queue, worker, counted, starts, untilStarted, rootOf, base }) => {
        const shared = { root: rootOf('one') } as object
        await worker('one', shared)
        await queue.add({ id: 'first', command: counted('first', untilFile(`${base}/go`)) })
        await untilStarted('first')
        const two = await worker('two', { ...shared, retention: 1000 })
        await queue.add({ id: 'second', command: counted('second', 'true') })
        expect(await ended(queue, 'second')).toMatchObject({ state: 'completed', host: 'two' })
        await two.end('SIGKILL')
        await worker('two', { ...shared, retention: 1000 })
        release(base)
        expect(await ended(queue, 'first')).toMatchObject({ state: 'completed', host: 'one' })
        expect([starts('first'), starts('second')]).toEqual([1, 1])
      }),
    30_000,
  )

  it(
    'do not take over a job when the id of its host was changed: it is HOST_LOST, and its process is left alone',
    () =>
      withQueue(async ({ queue, worker, counted, starts, untilStarted, rootOf, tag }) => {
        const first = await worker('old-name')
        await queue.add({ id: 'renamed', command: counted('renamed', 'sleep 1000') })
        await untilStarted('renamed')
        await first.end('SIGKILL')
        await worker('new-name', { root: rootOf('old-name') } as object)
        const job = await ended(queue, 'renamed', 20_000)
        expect(job.result).toMatchObject({ code: 'HOST_LOST', host: 'old-name' })
        expect(starts('renamed')).toBe(1)
        expect(proc.tagged(tag).length).toBeGreaterThan(0)
        // Under its own name, the host ends what was given up.
        await worker('old-name')
        await expectNoProcess(tag)
      }),
    40_000,
  )
})

describe('Redis', () => {
  it(
    'that is stopped for longer than a lease makes no host count as lost',
    () =>
      withQueue(async ({ queue, redis, worker, counted, starts, untilStarted, base }) => {
        const first = await worker('one')
        await queue.add({ id: 'frozen', command: counted('frozen', untilFile(`${base}/go`)) })
        await untilStarted('frozen')
        const second = await worker('two')
        first.signal('SIGSTOP')
        redis.signal('SIGSTOP')
        await new Promise((resolve) => setTimeout(resolve, 5000))
        // The worker of the job is slower than the other one, which finds a lease that has run out.
        redis.signal('SIGCONT')
        await second.printed('passed on to its host frozen')
        first.signal('SIGCONT')
        release(base)
        expect(await ended(queue, 'frozen')).toMatchObject({ state: 'completed', attempt: 1 })
        expect(starts('frozen')).toBe(1)
      }),
    40_000,
  )
})

describe('a Redis that is away', () => {
  it(
    'keeps no worker and no queue from closing',
    () =>
      withQueue(async ({ redis, worker, launch, open, untilStarted, queue, counted }) => {
        const running = await worker('one')
        await queue.add({ id: 'runs', command: counted('runs', 'sleep 1000') })
        await untilStarted('runs')
        const frozen = await worker('two')
        redis.signal('SIGSTOP')
        expect(await frozen.end('SIGTERM')).toBe(0)
        await redis.stop('SIGKILL')
        expect(await running.end('SIGTERM')).toBe(0)
        const waiting = launch('three')
        await waiting.printed('Redis: ')
        expect(await waiting.end('SIGTERM')).toBe(0)
        const unreachable = open()
        const waits = Promise.allSettled([
          unreachable.wait('x'),
          unreachable.add({ command: 'true' }),
          unreachable.cancel('x'),
          outputOf(unreachable, 'x'),
        ])
        await unreachable.close()
        for (const outcome of await waits)
          expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'ABORT_ERR' } })
      }),
    40_000,
  )
})

describe('a network cut', () => {
  it(
    'that is shorter than the lease changes nothing',
    () =>
      withQueue(async ({ queue, redis, worker, counted, starts, untilStarted, base }) => {
        const proxy = await stoppingProxy(redis.port)
        try {
          await worker('far', { redis: `redis://127.0.0.1:${proxy.port}`, lease: 15_000 })
          await queue.add({ id: 'cut', command: counted('cut', `${untilFile(`${base}/go`)}; echo done`) })
          await untilStarted('cut')
          const near = await worker('near', { lease: 15_000 })
          proxy.cut()
          await near.printed('passed on to its host cut')
          release(base)
          proxy.heal()
          expect(await ended(queue, 'cut')).toMatchObject({ state: 'completed', host: 'far', attempt: 1 })
          expect((await outputOf(queue, 'cut')).toString()).toBe('done\n')
          expect(starts('cut')).toBe(1)
        } finally {
          await proxy.close()
        }
      }),
    40_000,
  )

  it(
    'that is longer fails the job with HOST_LOST, and its process ends when the host is back',
    () =>
      withQueue(async ({ queue, redis, worker, counted, starts, untilStarted, tag }) => {
        const proxy = await stoppingProxy(redis.port)
        try {
          await worker('far', { redis: `redis://127.0.0.1:${proxy.port}` })
          await queue.add({ id: 'long-cut', command: counted('long-cut', 'sleep 1000') })
          await untilStarted('long-cut')
          await worker('near')
          proxy.cut()
          const job = await ended(queue, 'long-cut', 20_000)
          expect(job.result).toMatchObject({ reason: 'host-lost', code: 'HOST_LOST', host: 'far' })
          expect(proc.tagged(tag).length).toBeGreaterThan(0)
          proxy.heal()
          await expectNoProcess(tag)
          // The host that is back takes jobs again.
          await Promise.all(
            ['n1', 'n2', 'n3', 'n4'].map((id) => queue.add({ id, command: 'sleep 0.5; exit 0' })),
          )
          const after = await Promise.all(['n1', 'n2', 'n3', 'n4'].map((id) => ended(queue, id)))
          expect(new Set(after.map(({ host }) => host))).toEqual(new Set(['far', 'near']))
          expect(starts('long-cut')).toBe(1)
        } finally {
          await proxy.close()
        }
      }),
    60_000,
  )
})

function release(base: string): void {
  writeFileSync(`${base}/go`, '')
}
