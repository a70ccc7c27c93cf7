/** `nacre worker` and `nacre queue`. */
import { describe, expect, it } from 'vitest'
import { type Cli, withCli } from '../../../__test__/helpers/cli.js'
import type { RedisServer } from '../../../__test__/helpers/redis.js'
import { withQueue } from './place.js'

interface Place extends Cli {
  redis: RedisServer
  /** Starts a worker and waits until it takes jobs. */
  work(...options: string[]): Promise<ReturnType<Cli['start']>>
  /** `nacre queue <verb> ...`. */
  verb(verb: string, ...words: string[]): ReturnType<Cli['nacre']>
  /** Its words. */
  verbOf(verb: string, ...words: string[]): string[]
}

function withBoth(test: (place: Place) => Promise<void>): Promise<void> {
  return withQueue(({ redis }) =>
    withCli(async (cli) => {
      const connection = ['--redis', redis.url, '--queue', 'test']
      const work = async (...options: string[]) => {
        const words = [
          'worker',
          ...connection,
          '--root',
          cli.root,
          '--host-id',
          'here',
          '--lease',
          '3s',
          ...options,
        ]
        const worker = cli.start(words, '')
        await worker.printed('nacre takes jobs as host here\n')
        return worker
      }
      const verbOf = (name: string, ...words: string[]) => ['queue', name, ...connection, ...words]
      const verb = (name: string, ...words: string[]) => cli.nacre(...verbOf(name, ...words))
      await test({ ...cli, work, verb, verbOf, redis })
    }),
  )
}

describe('the command line', () => {
  it('adds jobs, shows them, prints their output and exits with their code', () =>
    withBoth(async ({ work, verb }) => {
      const worker = await work('--concurrency', '2')
      expect(await verb('add', '--id', 'a', 'echo out; exit 3')).toMatchObject({ code: 0, stdout: 'a\n' })
      expect(await verb('logs', '-f', 'a')).toMatchObject({ code: 3, stdout: 'out\n' })
      expect(await verb('logs', 'a')).toMatchObject({ code: 0, stdout: 'out\n' })
      expect((await verb('status', 'a')).stdout).toBe('failed on here: the command exited with code 3\n')
      await verb('add', '--id', 'b', '--env', 'X=1 2', '--', 'printenv', 'X')
      expect(await verb('logs', '-f', 'b')).toMatchObject({ code: 0, stdout: '1 2\n' })
      expect(JSON.parse((await verb('status', '--json', 'b')).stdout)).toMatchObject({
        state: 'completed',
        host: 'here',
      })
      const list = (await verb('ls')).stdout
      expect(list).toMatch(/^ID {2}STATE +COMMAND\n(?:.*\n)*b {3}completed on here +printenv X\n/)
      expect((await verb('ls', '--state', 'failed')).stdout).toMatch(/^ID .*\na {3}failed on here: .*\n$/)
      worker.child.kill('SIGTERM')
      expect((await worker.ended).code).toBe(0)
    }))

  it('leaves jobs running after SIGTERM, and the next start attaches to them', () =>
    withBoth(async ({ work, verb, verbOf, start, job }) => {
      const first = await work()
      await verb('add', '--id', 'long', 'echo begin; sleep 1000')
      const logs = start(verbOf('logs', '-f', 'long'), '')
      await logs.printed('begin\n')
      logs.child.kill('SIGINT')
      expect(await logs.ended).toMatchObject({
        code: 130,
        stderr: expect.stringContaining('no longer following job long'),
      })
      first.child.kill('SIGTERM')
      expect((await first.ended).code).toBe(0)
      expect((await job('ls')).stdout).toContain('running')
      const second = await work()
      expect(await verb('cancel', '--grace', '100ms', 'long')).toMatchObject({ code: 0, stdout: 'ended\n' })
      second.child.kill('SIGINT')
      expect(await second.ended).toMatchObject({
        code: 0,
        stderr: expect.stringContaining('attached to long'),
      })
    }))

  it('says once that Redis does not answer, and how to name another one', () =>
    withBoth(async ({ start, work, root, redis }) => {
      const reason = 'connect ECONNREFUSED 127.0.0.1:1'
      const line = `Redis: ${reason}; waiting. --redis or NACRE_REDIS_URL names another Redis\n`
      const away = ['--redis', 'redis://127.0.0.1:1']
      const waiting = start(['worker', ...away, '--root', root], '')
      const verbs = [start(['queue', 'ls', ...away], ''), start(['queue', 'add', ...away, 'true'], '')]
      const end = 'nacre: Redis has not answered for 5 s. --redis or NACRE_REDIS_URL names another Redis\n'
      for (const { ended } of verbs)
        expect(await ended).toMatchObject({ code: 1, stderr: `nacre: ${line}${end}` })
      waiting.child.kill('SIGTERM')
      expect((await waiting.ended).stderr).toBe(line)
      const running = await work()
      for (let loss = 0; loss < 2; loss++) {
        await redis.stop('SIGKILL')
        await new Promise((resolve) => setTimeout(resolve, 2000))
        await redis.start()
        await new Promise((resolve) => setTimeout(resolve, 2000))
      }
      running.child.kill('SIGTERM')
      const { stderr } = await running.ended
      expect(stderr.split(`connect ECONNREFUSED 127.0.0.1:${redis.port}; waiting`)).toHaveLength(3)
    }))

  it('fails with a sentence for what is wrong', () =>
    withBoth(async ({ verb, nacre }) => {
      expect(await verb('status', 'none')).toMatchObject({
        code: 1,
        stderr: "nacre: the queue has no job 'none'\n",
      })
      expect(await verb('add', '--id', 'a:b', 'true')).toMatchObject({ code: 2 })
      expect(await verb('add', '--attempts', 'many', 'true')).toMatchObject({ code: 2 })
      const bad = await nacre('worker', '--redis', 'http://127.0.0.1')
      expect(bad).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('redis must be a redis: or rediss: URL'),
      })
      const limit = await nacre('worker', '--limit', 'much')
      expect(limit).toMatchObject({ code: 2, stderr: expect.stringContaining('It must be like 10/1s.') })
    }))
})
