/** The output of a job is read from whichever host has it, byte for byte. */
import { createHash } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { JobWorker } from '@nacre/queue'
import { serve } from '@nacre/server'
import { Sandbox } from 'nacre'
import { SandboxClient } from 'nacre/client'
import { describe, expect, it } from 'vitest'
import { until } from '../../../__test__/helpers/until.js'
import { ended, outputOf, TIMES, withQueue } from './place.js'

/** 10 MB of bytes of every value, the same every time. */
const MUCH = 10_000_000
const program = (go: string): string =>
  `head -c ${MUCH / 2} /dev/zero | openssl enc -aes-128-ctr -K 0 -iv 0 2>/dev/null; until [[ -e ${go} ]]; do sleep 0.02; done; ` +
  `head -c ${MUCH / 2} /dev/zero | openssl enc -aes-128-ctr -K 1 -iv 0 2>/dev/null`

const sha = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

describe('logs', () => {
  it(
    'of 10 MB are the same while the job runs, afterwards, and from any cursor',
    () =>
      withQueue(async ({ queue, worker, base }) => {
        await worker('one')
        await queue.add({ id: 'much', command: program(`${base}/go`) })
        const parts: Uint8Array[] = []
        let cursors = 0
        for await (const { raw, cursor, bytesFetched } of queue.logs('much', {
          follow: true,
          encoding: 'buffer',
        })) {
          parts.push(raw)
          cursors += bytesFetched
          expect(cursor).toBe(cursors)
          if (cursor === MUCH / 2) mkdirSync(`${base}/go`)
        }
        const followed = Buffer.concat(parts)
        expect(followed.length).toBe(MUCH)
        expect(new Set(followed).size).toBe(256)
        await ended(queue, 'much')
        const after = await outputOf(queue, 'much')
        expect(sha(after)).toBe(sha(followed))
        const rest = await outputOf(queue, 'much', { cursor: 7_654_321 })
        expect(sha(rest)).toBe(sha(followed.subarray(7_654_321)))
        expect((await queue.get('much'))?.result?.bytes).toBe(MUCH)
      }),
    40_000,
  )

  it('are not split while processes outlive the command, and followed until these end', () =>
    withQueue(async ({ queue, worker, base }) => {
      await worker('one')
      const late = `{ until [[ -e ${base}/go ]]; do sleep 0.02; done; printf '\\204\\n'; }`
      await queue.add({ id: 'late', command: `${late} & printf 'a\\303'` })
      await ended(queue, 'late')
      const pieces = queue.logs('late', { follow: true })
      expect((await pieces.next()).value?.raw).toBe('a')
      mkdirSync(`${base}/go`)
      let rest = ''
      for await (const { raw } of pieces) rest += raw
      expect(rest).toBe('Ä\n')
    }))

  it(
    'survive a restart of the worker and of Redis while they are followed',
    () =>
      withQueue(
        async ({ queue, worker, redis, base }) => {
          const first = await worker('one')
          const step = (n: number) => `echo ${n}; until [[ -e ${base}/${n} ]]; do sleep 0.02; done`
          await queue.add({ id: 'steps', command: `${step(1)}; ${step(2)}; ${step(3)}; echo end` })
          let text = ''
          for await (const { raw } of queue.logs('steps', { follow: true })) {
            text += raw
            if (text === '1\n') {
              await first.end('SIGKILL')
              mkdirSync(`${base}/1`)
              await worker('one')
            } else if (text === '1\n2\n') {
              await redis.stop('SIGKILL')
              mkdirSync(`${base}/2`)
              await redis.start()
            } else if (text === '1\n2\n3\n') mkdirSync(`${base}/3`)
          }
          expect(text).toBe('1\n2\n3\nend\n')
          expect(await ended(queue, 'steps')).toMatchObject({ state: 'completed' })
        },
        { append: 'always' },
      ),
    40_000,
  )

  it('that are followed before the job starts begin when it does', () =>
    withQueue(async ({ queue, worker }) => {
      await queue.add({ id: 'early', command: 'echo one; sleep 0.2; echo two' })
      expect((await outputOf(queue, 'early')).length).toBe(0)
      const followed = outputOf(queue, 'early', { follow: true })
      await worker('one')
      expect((await followed).toString()).toBe('one\ntwo\n')
    }))

  it('as text and by lines split no character and no line', () =>
    withQueue(async ({ queue, worker }) => {
      await worker('one')
      await queue.add({
        id: 'text',
        command: "printf 'gr\\xc3'; sleep 0.3; printf '\\xbc\\xc3\\x9fe\\nrest'",
      })
      const pieces: string[] = []
      for await (const { raw } of queue.logs('text', { follow: true, lines: true })) pieces.push(raw)
      expect(pieces.join('')).toBe('grüße\nrest')
      expect(
        pieces.every((piece) => piece.endsWith('\n') || piece === 'rest' || piece === 'grüße\nrest'),
      ).toBe(true)
    }))

  it('end with the loop that reads them, and with an abort', () =>
    withQueue(async ({ queue, worker, untilStarted, counted }) => {
      await worker('one')
      await queue.add({ id: 'quiet', command: counted('quiet', 'echo x; sleep 1000') })
      await untilStarted('quiet')
      for await (const { raw } of queue.logs('quiet', { follow: true })) {
        expect(raw).toBe('x\n')
        break
      }
      const pieces = queue.logs('quiet', { follow: true, cursor: 2 })
      const pending = pieces.next()
      await pieces.return?.()
      expect(await pending).toEqual({ done: true, value: undefined })
      const stop = new AbortController()
      const aborted = outputOf2(queue.logs('quiet', { follow: true, signal: stop.signal }))
      setTimeout(() => stop.abort(), 100)
      await expect(aborted).rejects.toMatchObject({ code: 'ABORT_ERR' })
      expect(await queue.get('quiet')).toMatchObject({ state: 'active' })
    }))

  it('come through Redis, also from a host whose jobs are those of a server', () =>
    withQueue(async ({ queue, redis, base, tag }) => {
      await using sandbox = new Sandbox({ jobsRoot: `${base}/jobs`, env: { NACRE_TEST_TAG: tag } })
      const server = await serve(sandbox, { port: 0 })
      await using client = new SandboxClient({ url: server.url })
      await using worker = new JobWorker({
        ...{ ...TIMES, name: 'test', redis: redis.url, host: 'web' },
        jobs: client.jobs,
      })
      await worker.start()
      await queue.add({ id: 'web', command: 'seq 200000; exit 4' })
      const job = await ended(queue, 'web')
      expect(job.result).toMatchObject({ exitCode: 4, bytes: 1_288_895 })
      expect((await outputOf(queue, 'web')).length).toBe(1_288_895)
      await worker.close()
      await server.close()
    }))

  it('of a job whose host has removed them are JOB_NOT_FOUND', () =>
    withQueue(async ({ queue, worker, rootOf }) => {
      await worker('one', { retention: 1000 })
      await queue.add({ id: 'old', command: 'echo old' })
      await ended(queue, 'old')
      expect((await outputOf(queue, 'old')).toString()).toBe('old\n')
      await using sandbox = new Sandbox({ jobsRoot: rootOf('one') })
      await until(
        async () => ((await sandbox.jobs.list()).length === 0 ? true : undefined),
        () => 'kept',
      )
      await expect(outputOf(queue, 'old')).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
    }))
})

async function outputOf2(pieces: AsyncIterable<unknown>): Promise<number> {
  let count = 0
  for await (const _ of pieces) count++
  return count
}
