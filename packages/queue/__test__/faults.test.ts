/** One process per attempt, whatever happens to workers, to Redis and to the network between them. */
import { cpSync, rmSync, writeFileSync } from 'node:fs'
import { Redis } from 'ioredis'
import { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { expectNoProcess } from '../../../__test__/helpers/jobs.js'
import { holds, until } from '../../../__test__/helpers/until.js'
import { ended, outputOf, TIMES, withQueue } from './place.js'

/** A connection to Redis. */
function connectTo(url: string) {
  const redis = new Redis(url)
  return {
    call: (...words: [string, ...string[]]) => redis.call(...words),
    [Symbol.asyncDispose]: async () => redis.disconnect(),
  }
}

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
    'that was away while its job ended and all jobs were pruned reports the result, and runs it once',
    () =>
      withQueue(async ({ queue, worker, counted, starts, untilStarted, rootOf }) => {
        const first = await worker('one')
        await queue.add({
          id: 'away',
          command: counted('away', 'sleep 0.3'),
          onHostLost: 'retry',
          attempts: 3,
        })
        await untilStarted('away')
        await first.end('SIGKILL')
        const sandbox = new Sandbox({ jobsRoot: rootOf('one') })
        const [{ jobId = '' } = {}] = await sandbox.jobs.list()
        await sandbox.jobs.wait(jobId)
        expect(await sandbox.jobs.prune()).toEqual([])
        await worker('one')
        expect(await ended(queue, 'away')).toMatchObject({ state: 'completed', host: 'one', attempt: 1 })
        expect(starts('away')).toBe(1)
        await sandbox.destroy()
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
    'that cannot release its host ends in order, and its jobs go on',
    () =>
      withQueue(async ({ queue, worker, counted, starts, untilStarted, base, redis }) => {
        const first = await worker('one')
        await queue.add({ id: 'kept', command: counted('kept', untilFile(`${base}/go`)) })
        await untilStarted('kept')
        await using connection = connectTo(redis.url)
        const hosts = 'nacre:bull:test:hosts'
        // The times of the hosts cannot be written any more.
        await connection.call('RENAME', hosts, 'aside')
        await connection.call('SET', hosts, 'of another type')
        expect(await first.end('SIGTERM')).toBe(0)
        expect(first.output()).toContain('releasing the host: ')
        await connection.call('RENAME', 'aside', hosts)
        const second = await worker('one')
        await second.printed('attached to kept')
        release(base)
        expect(await ended(queue, 'kept')).toMatchObject({ state: 'completed', attempt: 1 })
        expect(starts('kept')).toBe(1)
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
        )
        release(base)
        const job = await ended(queue, 'again')
        expect(job.result).toMatchObject({ exitCode: 3 })
        expect(starts('again')).toBe(1)
      }),
    40_000,
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
      withQueue(async ({ queue, redis, worker, counted, starts, untilStarted, rootOf, base }) => {
        await using client = connectTo(redis.url)
        const first = await worker('one', { lease: 20_000 })
        await queue.add({ id: 'wiped', command: counted('wiped', 'echo x') })
        await queue.add({ id: 'runs', command: counted('runs', untilFile(`${base}/go`)) })
        await untilStarted('runs')
        // A worker that is killed before it has recorded the start knows of none without the directory.
        await holds(
          async () => (await client.call('HGET', 'nacre:bull:test:claim:runs:1', 'state')) === 'started',
        )
        await first.end('SIGKILL')
        release(base)
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
