/** What the server keeps of requests that it has answered. */
import { expect, it } from 'vitest'
import { Metrics } from '../../lib/server/metrics.js'
import { withServer } from '../helpers/http.js'
import { withSandbox } from '../helpers/invariants.js'
import { collect } from '../helpers/memory.js'

const MEBIBYTE = 1024 * 1024

/** Bytes in use. */
function used(): number {
  collect()
  return process.memoryUsage().heapUsed
}

it('refused requests with long ids leave nothing in memory', () =>
  withServer(async ({ post }) => {
    const id = (index: number) => `${index}-`.padEnd(MEBIBYTE, 'x')
    const refuse = async (index: number) => {
      for (const path of ['/v1/exec', '/v1/processes', '/api/execute'])
        for (const name of ['sessionId', ...(path === '/v1/processes' ? ['processId'] : [])]) {
          const { status, body } = await post(path, { command: 'true', [name]: id(index) })
          expect(status).toBe(400)
          expect(JSON.stringify(body).length).toBeLessThan(1000)
        }
      return used()
    }
    const before = await refuse(0)
    for (let index = 1; index < 20; index++) await refuse(index)
    expect((used() - before) / MEBIBYTE).toBeLessThan(10)
  }))

it('sessions that have ended are forgotten without a scrape of the metrics', () =>
  withSandbox(
    async ({ sandbox }) => {
      const metrics = new Metrics(sandbox)
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
    },
    { mayStall: true },
  ))

it('a result without maxBuffer has at most 16 MiB of each stream', () =>
  withServer(async ({ post }) => {
    const print = (bytes: number) =>
      `head -c ${bytes} /dev/zero | tr '\\0' x; head -c 5 /dev/zero | tr '\\0' e >&2`
    const most = 16 * MEBIBYTE
    const { body } = await post('/v1/exec', { command: print(most + 100) })
    expect(body.result.truncated).toEqual({ stdout: 100, stderr: 0 })
    expect(body.result.stderr).toBe('eeeee')
    const whole = await post('/v1/exec', { command: print(most + 100), maxBuffer: most + 100 })
    expect(whole.body.result).toMatchObject({ truncated: null, stdout: 'x'.repeat(most + 100) })
  }))
