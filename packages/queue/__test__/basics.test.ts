/** Jobs of a queue run on hosts, and their results are true. */
import { mkdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { Queue } from 'bullmq'
import { describe, expect, it } from 'vitest'
import { until } from '../../../__test__/helpers/until.js'
import { ended, outputOf, withQueue } from './place.js'

/** A command that fails until it has run so often. */
const failsUntil = (base: string, times: number): string =>
  `echo x >> ${base}/tries; n=$(wc -l < ${base}/tries); echo try $n; [[ $n -ge ${times} ]]`

describe('a job', () => {
  it('runs once and gives its exit code, times, host and output', () =>
    withQueue(async ({ queue, worker, counted, starts }) => {
      await worker('one')
      const added = await queue.add({ id: 'first', command: counted('first', 'echo out; echo err >&2') })
      expect(added).toMatchObject({ id: 'first', attempt: 1 })
      const job = await ended(queue, 'first')
      expect(job).toMatchObject({
        state: 'completed',
        attempt: 1,
        host: 'one',
        failedReason: null,
        progress: 8,
      })
      expect(job.result).toMatchObject({
        exitCode: 0,
        signal: null,
        reason: 'exit',
        error: null,
        code: null,
        host: 'one',
        attempt: 1,
        bytes: 8,
      })
      const { startTime, endTime, duration } = job.result ?? {}
      expect(endTime?.getTime()).toBe((startTime?.getTime() ?? 0) + (duration ?? 0))
      expect((await outputOf(queue, 'first')).toString()).toBe('out\nerr\n')
      expect(starts('first')).toBe(1)
    }))

  it('gets its arguments, directory, environment and input byte for byte', () =>
    withQueue(async ({ queue, worker, base }) => {
      await worker('one')
      const cwd = path.join(base, 'a directory')
      mkdirSync(cwd)
      const word = `it's "$HOME" \\ \n é`
      const { id } = await queue.add({ command: ['printf', '%s|', word, '*'], cwd })
      await ended(queue, id)
      expect((await outputOf(queue, id)).toString()).toBe(`${word}|*|`)
      const bytes = Uint8Array.from({ length: 256 }, (_, index) => index)
      const second = await queue.add({
        command: 'cat; pwd; printf %s "$WORD"',
        cwd,
        env: { WORD: word },
        input: bytes,
      })
      await ended(queue, second.id)
      expect(await outputOf(queue, second.id)).toEqual(Buffer.concat([bytes, Buffer.from(`${cwd}\n${word}`)]))
    }))

  it('fails with the result in it when its command fails, and BullMQ has both', () =>
    withQueue(async ({ queue, worker, redis }) => {
      await worker('one', { concurrency: 4 })
      await queue.add({ id: 'code', command: 'echo no; exit 3' })
      await queue.add({ id: 'signal', command: 'kill -SEGV $$; sleep 10' })
      await queue.add({ id: 'timeout', command: 'sleep 100', timeout: 200 })
      await queue.add({ id: 'fine', command: 'true' })
      const code = await ended(queue, 'code')
      expect(code).toMatchObject({ state: 'failed', failedReason: 'the command exited with code 3' })
      expect(code.result).toMatchObject({
        exitCode: 3,
        reason: 'exit',
        error: 'the command exited with code 3',
        bytes: 3,
      })
      const signal = await ended(queue, 'signal')
      expect(signal).toMatchObject({ state: 'failed', failedReason: 'the command was ended by SIGSEGV' })
      expect(signal.result).toMatchObject({ exitCode: null, signal: 'SIGSEGV', reason: 'signal' })
      const timeout = await ended(queue, 'timeout')
      expect(timeout.result).toMatchObject({ signal: 'SIGTERM', reason: 'timeout' })
      expect(timeout.failedReason).toBe('the command ran longer than its timeout and was ended by SIGTERM')
      await ended(queue, 'fine')
      const bull = new Queue('test', { connection: { port: redis.port } })
      try {
        const [failed, fine] = await Promise.all([bull.getJob('code'), bull.getJob('fine')])
        expect(await failed?.getState()).toBe('failed')
        expect(failed?.returnvalue).toMatchObject({
          exitCode: 3,
          host: 'one',
          endedAt: code.result?.endTime?.toISOString(),
        })
        expect(fine?.returnvalue).toMatchObject({ exitCode: 0, error: null })
      } finally {
        await bull.close()
      }
    }))

  it('completes whatever its command says with check: false', () =>
    withQueue(async ({ queue, worker }) => {
      await worker('one')
      const { id } = await queue.add({ command: 'exit 3', check: false, attempts: 3 })
      const job = await ended(queue, id)
      expect(job).toMatchObject({ state: 'completed', attempt: 1 })
      expect(job.result).toMatchObject({ exitCode: 3, error: null })
    }))

  it('is tried again with its backoff, and each attempt has an output of its own', () =>
    withQueue(async ({ queue, worker, base }) => {
      await worker('one')
      await queue.add({
        id: 'again',
        command: failsUntil(base, 3),
        attempts: 5,
        backoff: { type: 'fixed', delay: 300 },
      })
      const job = await ended(queue, 'again')
      expect(job).toMatchObject({ state: 'completed', attempt: 3 })
      expect(job.result?.jobId).toMatch(/^again\.3\.[0-9a-f]{8}$/)
      for (const attempt of [1, 2, 3])
        expect((await outputOf(queue, 'again', { attempt })).toString()).toBe(`try ${attempt}\n`)
      expect((job.endTime?.getTime() ?? 0) - job.createdAt.getTime()).toBeGreaterThanOrEqual(600)
      expect(readFileSync(`${base}/tries`, 'utf8')).toBe('x\nx\nx\n')
    }))

  it('that cannot start fails with the reason and is tried again', () =>
    withQueue(async ({ queue, worker, base, counted, starts }) => {
      await worker('one')
      const { id } = await queue.add({
        command: counted('none', 'true'),
        cwd: path.join(base, 'none'),
        attempts: 2,
      })
      const job = await ended(queue, id)
      expect(job).toMatchObject({ state: 'failed', attempt: 2 })
      expect(job.result).toMatchObject({ reason: 'start-failed', code: 'CWD_NOT_FOUND', exitCode: null })
      expect(starts('none')).toBe(0)
    }))

  it('reports its progress as the length of its output', () =>
    withQueue(async ({ queue, worker, base }) => {
      await worker('one')
      const command = `head -c 300000 /dev/zero; until [[ -e ${base}/go ]]; do sleep 0.02; done; echo end`
      const { id } = await queue.add({ command })
      await until(
        async () => ((await queue.get(id))?.progress === 300_000 ? true : undefined),
        () => 'no progress',
      )
      mkdirSync(`${base}/go`)
      expect((await ended(queue, id)).progress).toBe(300_004)
    }))

  it('of an id that is in the queue is not added again, and runs again after it was removed', () =>
    withQueue(async ({ queue, worker, counted, starts, base, untilStarted }) => {
      await worker('one')
      const command = counted('same', `until [[ -e ${base}/go ]]; do sleep 0.02; done; echo first`)
      await queue.add({ id: 'same', command, removeOnComplete: true })
      await untilStarted('same')
      const again = await queue.add({ id: 'same', command: counted('same', 'echo second') })
      expect(again).toMatchObject({ id: 'same', command, state: 'active' })
      const waiting = ended(queue, 'same')
      mkdirSync(`${base}/go`)
      expect(await waiting).toMatchObject({ state: 'completed' })
      expect(await queue.get('same')).toBeNull()
      expect(starts('same')).toBe(1)
      await queue.add({ id: 'same', command: counted('same', 'echo third') })
      expect(await ended(queue, 'same')).toMatchObject({ state: 'completed' })
      expect(starts('same')).toBe(2)
      expect((await outputOf(queue, 'same')).toString()).toBe('third\n')
    }))

  it('that does not stay in the queue is still waited for, with its result', () =>
    withQueue(async ({ queue, worker, base }) => {
      await worker('one')
      const go = `until [[ -e ${base}/go ]]; do sleep 0.02; done`
      await queue.add({ id: 'good', command: `${go}; exit 0`, removeOnComplete: true })
      await queue.add({ id: 'bad', command: 'exit 9', removeOnFail: true })
      const both = Promise.all([ended(queue, 'good'), ended(queue, 'bad')])
      await until(
        async () => ((await queue.get('good'))?.state === 'active' ? true : undefined),
        () => 'not active',
      )
      mkdirSync(`${base}/go`)
      const [good, bad] = await both
      expect(good).toMatchObject({ state: 'completed', result: { exitCode: 0, host: 'one' } })
      expect(bad).toMatchObject({
        state: 'failed',
        result: { exitCode: 9 },
        failedReason: 'the command exited with code 9',
      })
      expect(await queue.list()).toEqual([])
    }))

  it('of another program is refused and starts nothing', () =>
    withQueue(async ({ queue, worker, redis, rootOf, base }) => {
      await worker('one')
      const bull = new Queue('test', { connection: { port: redis.port } })
      try {
        const start = { command: `touch ${base}/ran` }
        await bull.add('job', { hello: 1 }, { jobId: 'foreign' })
        await bull.add('job', { uid: 'u', start: { command: '' }, check: true }, { jobId: 'blank' })
        await bull.add('job', { uid: 'u', start: { ...start, env: { 'A B': 'x' } } }, { jobId: 'env' })
        await bull.add('job', { uid: '../x', start }, { jobId: 'uid', attempts: 3 })
        await bull.add('job', { uid: 'u', start: { ...start, input: { base64: '!' } } }, { jobId: 'input' })
        for (const id of ['foreign', 'blank', 'env', 'uid', 'input']) {
          const job = await ended(queue, id)
          expect(job).toMatchObject({ state: 'failed', attempt: 1 })
          expect(job.failedReason).toContain('the job cannot run: ')
        }
      } finally {
        await bull.close()
      }
      expect(() => statSync(`${base}/ran`)).toThrow()
      expect(() => statSync(path.join(rootOf('one'), 'foreign'))).toThrow()
    }))
})

describe('a queue', () => {
  it('runs jobs in the order of their priorities', () =>
    withQueue(async ({ queue, worker, counted, base }) => {
      for (const [id, priority] of [
        ['c', 9],
        ['a', 0],
        ['b', 2],
        ['d', 10],
      ] as const)
        await queue.add({ id, priority, command: counted(id, 'true') })
      await worker('one')
      for (const id of ['a', 'b', 'c', 'd']) await ended(queue, id)
      expect(readFileSync(`${base}/starts`, 'utf8')).toBe('a\nb\nc\nd\n')
    }))

  it('starts no more jobs than its rate limit allows, over two workers', () =>
    withQueue(async ({ queue, worker, counted }) => {
      const limiter = { max: 2, duration: 600 }
      await Promise.all(['one', 'two'].map((host) => worker(host, { limiter, concurrency: 4 })))
      const begun = performance.now()
      const ids = ['l1', 'l2', 'l3', 'l4', 'l5', 'l6']
      for (const id of ids) await queue.add({ id, command: counted(id, 'true') })
      for (const id of ids) await ended(queue, id)
      expect(performance.now() - begun).toBeGreaterThan(1100)
    }))

  it('runs as many jobs at a time as its workers may, on all hosts', () =>
    withQueue(async ({ queue, worker, counted, untilStarted, base }) => {
      await worker('one', { concurrency: 2 })
      await worker('two', { concurrency: 1 })
      const ids = Array.from({ length: 9 }, (_, n) => `p${n}`)
      const text = `echo + >>${base}/log; until [[ -e ${base}/go ]]; do sleep 0.02; done; echo - >>${base}/log`
      for (const id of ids) await queue.add({ id, command: counted('p', text) })
      await untilStarted('p', 3)
      mkdirSync(`${base}/go`)
      const jobs = await Promise.all(ids.map((id) => ended(queue, id)))
      let running = 0
      const counts = readFileSync(`${base}/log`, 'utf8')
        .trim()
        .split('\n')
        .map((sign) => (running += sign === '+' ? 1 : -1))
      expect(counts).toHaveLength(18)
      expect(Math.max(...counts)).toBe(3)
      expect(new Set(jobs.map(({ host }) => host))).toEqual(new Set(['one', 'two']))
    }))

  it('of the same name with another prefix is another queue, even on the same host', () =>
    withQueue(async ({ queue, open, worker, rootOf, counted }) => {
      const other = open({ prefix: 'other' })
      await worker('one')
      await worker('one', { prefix: 'other', root: rootOf('one') } as object)
      await queue.add({ id: 'same', command: counted('here', 'echo here') })
      await other.add({ id: 'same', command: counted('there', 'echo there; exit 2') })
      expect(await ended(queue, 'same')).toMatchObject({ state: 'completed' })
      expect(await ended(other, 'same')).toMatchObject({ state: 'failed' })
      expect((await outputOf(queue, 'same')).toString()).toBe('here\n')
      expect((await outputOf(other, 'same')).toString()).toBe('there\n')
    }))

  it('lists its jobs in pages, over all states', () =>
    withQueue(async ({ queue }) => {
      const ids = ['a', 'b', 'c', 'd', 'e', 'f', 'g']
      for (const [index, id] of ids.entries())
        await queue.add({ id, command: 'true', delay: index < 3 ? 60_000 : 0, priority: index < 5 ? 0 : 7 })
      for (const limit of [1, 2, 3, 5, 100]) {
        const found: string[] = []
        for (let offset = 0; offset < ids.length; offset += limit)
          found.push(...(await queue.list({ limit, offset })).map(({ id }) => id))
        expect(found.sort(), `pages of ${limit}`).toEqual(ids)
      }
      expect(await queue.list({ offset: 7 })).toEqual([])
      expect(await queue.list({ state: 'delayed', limit: 2, offset: 2 })).toHaveLength(1)
    }))

  it('lists jobs by state, and counts what a worker did', () =>
    withQueue(async ({ queue, worker }) => {
      await queue.add({ id: 'later', command: 'true', delay: 60_000 })
      const one = await worker('one')
      await queue.add({ id: 'good', command: 'true' })
      await queue.add({ id: 'bad', command: 'false' })
      await Promise.all([ended(queue, 'good'), ended(queue, 'bad')])
      const ids = async (state: 'delayed' | 'completed' | 'failed') =>
        (await queue.list({ state })).map(({ id }) => id)
      expect([await ids('delayed'), await ids('completed'), await ids('failed')]).toEqual([
        ['later'],
        ['good'],
        ['bad'],
      ])
      expect(await queue.list()).toHaveLength(3)
      expect(await queue.list({ limit: 1 })).toHaveLength(1)
      one.signal('SIGUSR2')
      await one.printed('metrics {"running":0,"started":2,"attached":0,"completed":1,"failed":1')
    }))
})
