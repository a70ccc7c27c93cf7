/** Workers whose jobs run behind a server. */
import { existsSync, writeFileSync } from 'node:fs'
import { JobWorker } from '@nacre/queue'
import { serve } from '@nacre/server'
import { Sandbox } from 'nacre'
import { SandboxClient } from 'nacre/client'
import { expect, it } from 'vitest'
import { holds, until } from '../../../__test__/helpers/until.js'
import { ended, TIMES, withQueue } from './place.js'

it(
  'a job waits for a server that has no room, and does not fail',
  () =>
    withQueue(async ({ queue, redis, base, tag }) => {
      const token = 'a-token-that-is-long-enough'
      await using sandbox = new Sandbox({ jobsRoot: `${base}/jobs`, env: { NACRE_TEST_TAG: tag } })
      const lines: string[] = []
      const logger = { debug() {}, info: (line: string) => void lines.push(line), warn() {}, error() {} }
      const server = await serve(sandbox, { port: 0, token, maxRequests: 2, logger })
      await using one = new SandboxClient({ url: server.url, token })
      await using two = new SandboxClient({ url: server.url, token })
      await using own = new SandboxClient({ url: server.url, token })
      await using worker = new JobWorker({
        ...{ ...TIMES, name: 'test', redis: redis.url },
        ...{ host: 'busy', jobs: own.jobs },
      })
      await worker.start()
      const session = await two.createSession()
      const full = []
      for (const [index, place] of [one, session].entries()) {
        full.push(place.exec(`touch ${base}/full-${index}; until [ -e ${base}/go ]; do sleep 0.02; done`))
        await holds(() => existsSync(`${base}/full-${index}`))
      }
      lines.length = 0
      await queue.add({ id: 'patient', command: 'true' })
      await until(
        () => lines.some((line) => line.startsWith('POST /v1/jobs 503')) || undefined,
        () => `the start was not refused: ${lines}`,
      )
      writeFileSync(`${base}/go`, '')
      await Promise.all(full)
      expect(await ended(queue, 'patient')).toMatchObject({ state: 'completed', attempt: 1 })
      await worker.close()
      await Promise.all([one, two, own].map((client) => client.destroy()))
      await server.close()
    }),
  30_000,
)
