/** How large the answers of a server may become. */
import { SandboxClient } from 'nacre/client'
import { expect, it } from 'vitest'
import { withServer } from '../../../__test__/helpers/http.js'
import { rejectionsOf } from '../../../__test__/helpers/thrown.js'

const MEBIBYTE = 1024 * 1024

it('requests with long ids are refused in a few words', () =>
  withServer(async ({ post }) => {
    const id = 'x'.repeat(MEBIBYTE)
    for (const path of ['/v1/exec', '/v1/processes', '/api/execute'])
      for (const name of ['sessionId', ...(path === '/v1/processes' ? ['processId'] : [])]) {
        const { status, body } = await post(path, { command: 'true', [name]: id })
        expect(status).toBe(400)
        expect(JSON.stringify(body).length).toBeLessThan(1000)
      }
  }))

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

it('refuses a maxBuffer above 64 MiB, and names the remedy', () =>
  withServer(async ({ post, url }) => {
    const maxBuffer = 64 * MEBIBYTE + 1
    const options = { command: 'touch ran', encoding: 'buffer', maxBuffer }
    const { status, body } = await post('/v1/exec', options)
    expect([status, body.code]).toEqual([400, 'INVALID_OPTION'])
    expect(body.message).toContain('execStream')
    const client = new SandboxClient({ url })
    const calls = [
      client.exec('touch ran', { maxBuffer }),
      client.execStream('touch ran', { maxBuffer }).result,
    ]
    for (const error of await rejectionsOf(calls))
      expect(error).toMatchObject({ name: 'OptionError', code: 'INVALID_OPTION' })
    expect((await client.exec('ls ran')).success).toBe(false)
    await client.destroy()
  }))
