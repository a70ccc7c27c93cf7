/**
 * Thousands of short jobs over four workers, which are killed at random moments, and a Redis that is killed once: each job
 * runs exactly one process, and each result is true. NACRE_SEED chooses the moments.
 */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { QueueJob } from '@nacre/queue'
import { expect, it } from 'vitest'
import { type Random, withRandom } from '../../../__test__/helpers/random.js'
import { until } from '../../../__test__/helpers/until.js'
import { outputOf, type WorkerProcess, withQueue } from './place.js'

const JOBS = 2000
const HOSTS = ['a', 'b', 'c', 'd']
/** The lease is longer than a killed worker takes to return, also on a busy machine. */
const OPTIONS = { concurrency: 4, lease: 15_000, lockDuration: 2000, stalledInterval: 1000 }

/** What job `n` does, and how it ends. */
const codeOf = (n: number): number => (n % 5 === 0 ? n % 256 : 0)

it('2,000 jobs run one process each while workers and Redis are killed', () => withRandom(run), 300_000)

function run(random: Random): Promise<void> {
  return withQueue(
    async ({ queue, redis, worker, base }) => {
      const begun = performance.now()
      const workers = new Map<string, WorkerProcess>()
      for (const host of HOSTS) workers.set(host, await worker(host, OPTIONS))
      const file = `${base}/starts`
      for (let n = 1; n <= JOBS; n++)
        await queue.add({
          id: `job-${n}`,
          command: `echo job-${n} >> ${file}; echo out ${n}; exit ${codeOf(n)}`,
        })
      const started = () => lines(file).length
      let isOver = false
      let kills = 0
      /** Kills one worker again and again, while those of the other hosts run or are killed, too. */
      const killer = async (host: string) => {
        while (!isOver) {
          await sleep(random.below(3000))
          await workers.get(host)?.end('SIGKILL')
          kills++
          workers.set(host, await worker(host, OPTIONS))
        }
      }
      const killed = Promise.all(HOSTS.map(killer))
      try {
        const restartAt = Math.floor(JOBS * (0.2 + random.next() * 0.4))
        await until(
          () => started() >= restartAt || undefined,
          () => `${started()} started`,
          120_000,
        )
        await redis.stop('SIGKILL')
        await redis.start()
        await until(
          async () => {
            await sleep(100)
            const { completed, failed } = await queue.counts()
            return completed + failed === JOBS || undefined
          },
          () => `${started()} started`,
          140_000,
        )
      } finally {
        isOver = true
        await killed
      }
      const jobs = [...(await queue.list({ limit: JOBS * 2 }))]
      expect(jobs).toHaveLength(JOBS)
      const wrong = jobs.filter((job) => !isTrue(job))
      expect(wrong.slice(0, 3)).toEqual([])
      const counts = new Map<string, number>()
      for (const id of lines(file)) counts.set(id, (counts.get(id) ?? 0) + 1)
      expect([...counts].filter(([, count]) => count !== 1)).toEqual([])
      expect(counts.size).toBe(JOBS)
      for (const { id } of jobs.filter((_, index) => index % 100 === 0))
        expect((await outputOf(queue, id)).toString()).toBe(`out ${id.slice(4)}\n`)
      console.log(
        `${JOBS} jobs, ${kills} workers killed, in ${Math.round((performance.now() - begun) / 1000)} s`,
      )
    },
    { append: 'everysec' },
  )
}

function isTrue({ id, state, result, attempt }: QueueJob): boolean {
  const code = codeOf(Number(id.slice(4)))
  const wanted = code === 0 ? 'completed' : 'failed'
  return state === wanted && attempt === 1 && result?.exitCode === code && result.reason === 'exit'
}

function lines(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n').filter(Boolean)
  } catch {
    return []
  }
}
