/** One process per attempt, whatever happens to workers, to Redis and to the network between them. */
import { cpSync, rmSync, writeFileSync } from 'node:fs'
import { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { expectNoProcess } from '../helpers/jobs.js'
import * as proc from '../helpers/proc.js'
import { ended, outputOf, TIMES, withQueue } from '../helpers/queue.js'
import { stoppingProxy } from '../helpers/stopping-proxy.js'
import { until } from '../helpers/until.js'

/** Ends when the file appears. */
const untilFile = (file: string): string => `until [[ -e ${file} ]]; do sleep 0.02; done`

describe('a worker', () => {
  it(
    'that is killed in the middle of a job attaches to it after its restart',
    () =>
      withQueue(async ({ queue, worker, counted, starts, untilStarted, base }) => {
        const first = await worker('one')
        await queue.add({
          id: 'long',
          command: counted('long', `${untilFile(`${base}/go`)}; echo done; exit 0`),
        })
        await untilStarted('long')
        await first.end('SIGKILL')
        const second = await worker('one')
        await second.printed('attached to long')
        release(base)
        const job = await ended(queue, 'long')
        expect(job).toMatchObject({ state: 'completed', host: 'one', attempt: 1 })
        expect(starts('long')).toBe(1)
        expect((await outputOf(queue, 'long')).toString()).toBe('done\n')
      }),
    30_000,
  )

  it(
    'that was away while its job ended reports the result after its restart',
    () =>
      withQueue(async ({ queue, worker, counted, starts, untilStarted }) => {
        const first = await worker('one')
        await queue.add({ id: 'away', command: counted('away', 'sleep 0.3; echo out; exit 7') })
        await untilStarted('away')
        await first.end('SIGKILL')
        await worker('one')
        const job = await ended(queue, 'away')
        expect(job).toMatchObject({ state: 'failed', failedReason: 'the command exited with code 7' })
        expect(job.result).toMatchObject({ exitCode: 7, reason: 'exit', host: 'one', bytes: 4 })
        expect(starts('away')).toBe(1)
      }),
    30_000,
  )

  it(
    'leaves its jobs running after SIGTERM, and its next start attaches',
    () =>
      withQueue(async ({ queue, worker, counted, starts, untilStarted, base }) => {
        const first = await worker('one')
        await queue.add({ id: 'kept', command: counted('kept', untilFile(`${base}/go`)) })
        await untilStarted('kept')
        expect(await first.end('SIGTERM')).toBe(0)
        const second = await worker('one')
        await second.printed('attached to kept')
        release(base)
        expect(await ended(queue, 'kept')).toMatchObject({ state: 'completed', host: 'one' })
        expect(starts('kept')).toBe(1)
      }),
    30_000,
  )

  it(
    'that is stopped for longer than its lock keeps its job, which another worker does not start',
    () =>
      withQueue(async ({ queue, worker, counted, starts, untilStarted, base }) => {
        const first = await worker('one', { lease: 20_000 })
        await queue.add({ id: 'paused-1', command: counted('paused-1', untilFile(`${base}/go`)) })
        await untilStarted('paused-1')
        const second = await worker('two', { lease: 20_000 })
        first.signal('SIGSTOP')
        // BullMQ takes the job from the first worker and gives it to the second, which passes it on.
        await second.printed('passed on to its host paused-1')
        first.signal('SIGCONT')
        release(base)
        expect(await ended(queue, 'paused-1')).toMatchObject({ state: 'completed', host: 'one', attempt: 1 })
        expect(starts('paused-1')).toBe(1)
      }),
    30_000,
  )

  it(
    'that is stopped while its job ends reports the result when it continues',
    () =>
      withQueue(async ({ queue, worker, counted, starts, untilStarted, base }) => {
        const first = await worker('one', { lease: 20_000 })
        await queue.add({ id: 'late', command: counted('late', `${untilFile(`${base}/go`)}; exit 5`) })
        await untilStarted('late')
        const second = await worker('two', { lease: 20_000 })
        first.signal('SIGSTOP')
        release(base)
        await second.printed('passed on to its host late')
        first.signal('SIGCONT')
        const job = await ended(queue, 'late')
        expect(job).toMatchObject({ state: 'failed', host: 'one' })
        expect(job.result).toMatchObject({ exitCode: 5 })
        expect(starts('late')).toBe(1)
      }),
    30_000,
  )

  it(
    'of the same host id is refused while the other is alive, and takes over from one that was killed',
    () =>
      withQueue(async ({ worker, launch }) => {
        const first = await worker('same')
        const second = launch('same')
        expect(await second.ended).toBe(4)
        expect(second.output()).toContain("failed HOST_ID_IN_USE another worker has the host id 'same'")
        await first.end('SIGKILL')
        await worker('same')
      }),
    30_000,
  )

  it(
    'that was stopped and replaced ends instead of going on beside its successor',
    () =>
      withQueue(async ({ queue, worker, counted, starts, untilStarted, base }) => {
        const first = await worker('one')
        await queue.add({ id: 'replaced', command: counted('replaced', untilFile(`${base}/go`)) })
        await untilStarted('replaced')
        first.signal('SIGSTOP')
        const second = await worker('one')
        await second.printed('attached to replaced')
        first.signal('SIGCONT')
        expect(await first.ended).toBe(3)
        expect(first.output()).toContain('stopped HOST_ID_IN_USE')
        release(base)
        expect(await ended(queue, 'replaced')).toMatchObject({ state: 'completed', host: 'one' })
        expect(starts('replaced')).toBe(1)
      }),
    30_000,
  )
})

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
    'that is restarted with its data in the middle of a job changes nothing',
    () =>
      withQueue(
        async ({ queue, redis, worker, counted, starts, untilStarted, base }) => {
          const first = await worker('one')
          await queue.add({ id: 'kept', command: counted('kept', untilFile(`${base}/go`)) })
          await queue.add({ id: 'next', command: counted('next', 'echo next') })
          await untilStarted('kept')
          await redis.stop('SIGKILL')
          await redis.start()
          release(base)
          expect(await ended(queue, 'kept')).toMatchObject({ state: 'completed', host: 'one', attempt: 1 })
          expect(await ended(queue, 'next')).toMatchObject({ state: 'completed', host: 'one', attempt: 1 })
          expect([starts('kept'), starts('next')]).toEqual([1, 1])
          expect(first.output()).not.toContain('failed')
        },
        { append: 'always' },
      ),
    40_000,
  )

  it(
    'that has lost its last writes, and with them a claim, makes no second process',
    () =>
      withQueue(
        async ({ queue, redis, worker, counted, starts, untilStarted, base }) => {
          await queue.add({
            id: 'unclaimed',
            command: counted('unclaimed', `${untilFile(`${base}/go`)}; exit 6`),
          })
          cpSync(`${base}/redis`, `${base}/before`, { recursive: true })
          const first = await worker('one')
          await untilStarted('unclaimed')
          await worker('two')
          await redis.stop('SIGKILL')
          rmSync(`${base}/redis`, { recursive: true })
          cpSync(`${base}/before`, `${base}/redis`, { recursive: true })
          // The host of the process is slow, so the other one would be the first to take the job.
          first.signal('SIGSTOP')
          await redis.start()
          // No host has it as far as Redis knows.
          expect(await queue.get('unclaimed')).toMatchObject({ host: null })
          await new Promise((resolve) => setTimeout(resolve, TIMES.lease / 2))
          first.signal('SIGCONT')
          release(base)
          const job = await ended(queue, 'unclaimed', 20_000)
          expect(job.result).toMatchObject({ exitCode: 6, host: 'one' })
          expect(starts('unclaimed')).toBe(1)
        },
        { append: 'always' },
      ),
    40_000,
  )

  it(
    'that has lost everything does not start the same id beside the process that still runs',
    () =>
      withQueue(async ({ queue, redis, worker, counted, starts, untilStarted, base }) => {
        await worker('one')
        await worker('two')
        const command = counted('again', `${untilFile(`${base}/go`)}; exit 3`)
        await queue.add({ id: 'again', command })
        await untilStarted('again')
        await redis.stop('SIGKILL')
        await redis.start()
        expect(await queue.get('again')).toBeNull()
        await queue.add({ id: 'again', command })
        await until(
          async () => ((await queue.get('again'))?.state === 'active' ? true : undefined),
          () => 'not taken',
          10_000,
        )
        release(base)
        const job = await ended(queue, 'again')
        expect(job.result).toMatchObject({ exitCode: 3 })
        expect(starts('again')).toBe(1)
      }),
    40_000,
  )

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

describe('a process', () => {
  it('whose supervisor is killed fails its job instead of leaving it active', () =>
    withQueue(async ({ queue, worker, counted, starts, untilStarted, rootOf, tag }) => {
      await worker('one')
      await queue.add({ id: 'killed', command: counted('killed', 'sleep 1000') })
      await untilStarted('killed')
      await using sandbox = new Sandbox({ jobsRoot: rootOf('one') })
      const [job] = await sandbox.jobs.list()
      process.kill(job?.pgid ?? 0, 'SIGKILL')
      expect(await ended(queue, 'killed')).toMatchObject({
        state: 'failed',
        failedReason: 'the job crashed (killed): how its command ended was not recorded',
        result: { exitCode: null, reason: 'killed' },
      })
      await expectNoProcess(tag)
      expect(starts('killed')).toBe(1)
    }))

  it(
    'whose directory was removed while its worker was away is HOST_LOST, and is not started again',
    () =>
      withQueue(async ({ queue, worker, counted, starts, untilStarted, rootOf }) => {
        const first = await worker('one', { lease: 20_000 })
        await queue.add({ id: 'wiped', command: counted('wiped', 'echo x') })
        await queue.add({ id: 'runs', command: counted('runs', 'sleep 0.5') })
        await untilStarted('runs')
        await first.end('SIGKILL')
        const sandbox = new Sandbox({ jobsRoot: rootOf('one') })
        const running = (await sandbox.jobs.list()).find(({ jobId }) => jobId.startsWith('runs.'))
        await sandbox.jobs.wait(running?.jobId ?? '')
        await sandbox.jobs.remove(running?.jobId ?? '')
        await sandbox.destroy()
        await worker('one', { lease: 20_000 })
        expect(await ended(queue, 'runs')).toMatchObject({
          state: 'failed',
          result: { reason: 'host-lost', code: 'HOST_LOST', host: 'one' },
        })
        expect(starts('runs')).toBe(1)
      }),
    30_000,
  )
})

function release(base: string): void {
  writeFileSync(`${base}/go`, '')
}
