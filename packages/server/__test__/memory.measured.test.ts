/** What the server keeps of requests that it has answered. */

import type { backends } from 'nacre/internal/server'
import { expect, it } from 'vitest'
import { withServer } from '../../../__test__/helpers/http.js'
import { withSandbox } from '../../../__test__/helpers/invariants.js'
import { collect } from '../../../__test__/helpers/memory.js'
import { Metrics } from '../lib/metrics.js'

const MEBIBYTE = 1024 * 1024

/** Bytes in use. */
function used(): number {
  collect()
  return process.memoryUsage().heapUsed
}

it('refused requests with long ids leave nothing in memory', () =>
  withServer(async ({ post }) => {
    const refuse = async (index: number) => {
      await post('/v1/exec', { command: 'true', sessionId: `${index}-`.padEnd(MEBIBYTE, 'x') })
      return used()
    }
    const before = await refuse(0)
    for (let index = 1; index < 80; index++) await refuse(index)
    expect((used() - before) / MEBIBYTE).toBeLessThan(10)
  }))

it('sessions that have ended are forgotten without a scrape of the metrics', () =>
  withSandbox(async ({ sandbox }) => {
    const metrics = new Metrics({
      listSessions: async () => ['default'],
    } as Partial<backends.Backend> as backends.Backend)
    const result = await sandbox.exec('true')
    const run = async (rounds: number) => {
      for (let round = 0; round < rounds; round++) {
        const sessionId = `${round}-`.padEnd(128, 'x')
        await metrics.command(Promise.resolve({ ...result, sessionId }))
      }
      return used()
    }
    const before = await run(2000)
    expect((await run(100_000)) - before).toBeLessThan(5 * MEBIBYTE)
  }))
