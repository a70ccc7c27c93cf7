/** Calls that survive their connections, the token in a header of its own, and the instance of the server. */
import { randomUUID } from 'node:crypto'
import { existsSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { type HttpPlace, withServer } from '../../../__test__/helpers/http.js'
import { holds } from '../../../__test__/helpers/until.js'
import { UsedNumbers } from '../lib/used-numbers.js'

async function register({ post }: HttpPlace, keep = 5000): Promise<string> {
  return (await post('/v1/callers', { keep })).body.callerId
}

describe('a numbered call', () => {
  it('is performed once, however often it is requested', () =>
    withServer(async (place) => {
      const headers = { 'x-nacre-call': `${await register(place)}/1` }
      const body = { command: 'echo run >> file; sleep 0.2; cat file' }
      const replies = await Promise.all([1, 2, 3].map(() => place.call('POST', '/v1/exec', body, headers)))
      replies.push(await place.call('POST', '/v1/exec', body, headers))
      for (const reply of replies) expect(reply.body.result.stdout).toBe('run\n')
    }))

  it('is refused with another method, path or body', () =>
    withServer(async (place) => {
      const headers = { 'x-nacre-call': `${await register(place)}/1` }
      const body = { command: 'echo run >> file; cat file' }
      expect((await place.call('POST', '/v1/exec', body, headers)).body.result.stdout).toBe('run\n')
      for (const [method, path, other] of [
        ['POST', '/v1/exec', { command: 'touch other' }],
        ['POST', '/v1/exec', { ...body, timeout: 5000 }],
        ['POST', '/v1/exec?x=1', body],
        ['POST', '/v1/exec/stream', body],
        ['POST', '/v1/processes', body],
        ['DELETE', '/v1/sessions/default', undefined],
      ] as const) {
        const reply = await place.call(method, path, other, headers)
        expect(reply, `${method} ${path}`).toMatchObject({ status: 422, body: { code: 'CALL_MISMATCH' } })
      }
      expect((await place.call('POST', '/v1/exec', body, headers)).body.result.stdout).toBe('run\n')
      expect(existsSync(path.join(place.directory, 'other'))).toBe(false)
    }))

  it('is refused with another upload', () =>
    withServer(async (place) => {
      const caller = await register(place)
      const put = async (number: number, body: string) => {
        const headers = { 'x-nacre-call': `${caller}/${number}` }
        const url = `${place.url}/v1/sessions/default/files/content?path=file&append=true`
        const response = await fetch(url, { method: 'PUT', headers, body })
        return [response.status, ((await response.json()) as { code?: string }).code]
      }
      const long = 'x'.repeat(1_000_000)
      expect(await put(1, long)).toEqual([200, undefined])
      expect(await Promise.all([put(1, long), put(1, `${long.slice(1)}y`), put(1, '')])).toEqual([
        [200, undefined],
        [422, 'CALL_MISMATCH'],
        [422, 'CALL_MISMATCH'],
      ])
      // At the same time, one of them begins the call.
      expect((await Promise.all([put(2, 'a'), put(2, 'b')])).map(([status]) => status).sort()).toEqual([
        200, 422,
      ])
      const { size } = (await place.sandbox.files.stat('file')) ?? {}
      expect(size).toBe(long.length + 1)
    }))

  it('gives the same error again', () =>
    withServer(async (place) => {
      const headers = { 'x-nacre-call': `${await register(place)}/1` }
      const request = () => place.call('POST', '/v1/sessions', { id: 'default' }, headers)
      const [first, second] = [await request(), await request()]
      expect(first.status).toBe(409)
      expect(second).toEqual(first)
    }))

  it('is not begun again after its reply was acknowledged, or its number was left behind', () =>
    withServer(async (place) => {
      const caller = await register(place)
      const exec = (number: number, headers = {}) =>
        place.call(
          'POST',
          '/v1/exec',
          { command: 'echo run >> file; wc -l < file' },
          { 'x-nacre-call': `${caller}/${number}`, ...headers },
        )
      await exec(2)
      expect((await exec(3, { 'x-nacre-received': '2' })).body.result.stdout).toBe('2\n')
      expect(await exec(2)).toMatchObject({ status: 409, body: { code: 'CALL_FORGOTTEN' } })
      expect((await exec(1)).body.result.stdout).toBe('3\n')
    }))

  it('is not begun after it was cancelled, and ends when it was begun', () =>
    withServer(async (place) => {
      const caller = await register(place)
      const call = (number: number) =>
        place.call(
          'POST',
          '/v1/exec',
          { command: 'touch begun; sleep 60' },
          { 'x-nacre-call': `${caller}/${number}` },
        )
      const running = call(1)
      await holds(() => existsSync(path.join(place.directory, 'begun')))
      await place.call('DELETE', `/v1/callers/${caller}/calls/1`)
      expect((await running).body.code).toBe('ABORT_ERR')
      await place.call('DELETE', `/v1/callers/${caller}/calls/2`)
      expect((await call(2)).body.code).toBe('CALL_FORGOTTEN')
    }))

  it('ends when no connection waits for it any more', () =>
    withServer(async (place) => {
      const headers = { 'x-nacre-call': `${await register(place, 200)}/1` }
      const stream = place.stream('POST', '/v1/exec/stream', { command: 'echo begun; sleep 60' }, headers)
      for await (const { data } of stream) if (data.type === 'stdout') break
      stream.vanish()
      // The session is free again once the command has been killed.
      expect((await place.post('/v1/exec', { command: 'echo ok' })).body.result.stdout).toBe('ok\n')
    }))

  it('has numbered events, which continue after the last one that was received', () =>
    withServer(async (place) => {
      const headers = { 'x-nacre-call': `${await register(place)}/1` }
      const body = { command: 'echo one; until [ -e go ]; do sleep 0.01; done; echo two' }
      const first = []
      const stream = place.stream('POST', '/v1/exec/stream', body, headers)
      for await (const { id, data } of stream) {
        first.push([id, data.type])
        if (data.type === 'stdout') break
      }
      stream.vanish()
      writeFileSync(path.join(place.directory, 'go'), '')
      const last = { 'last-event-id': String(first.length) }
      const rest = []
      for await (const { id, data } of place.stream('POST', '/v1/exec/stream', body, { ...headers, ...last }))
        rest.push([id, data.type, data.data])
      expect(first).toEqual([
        ['1', 'run'],
        ['2', 'start'],
        ['3', 'stdout'],
      ])
      expect(rest).toEqual([
        ['4', 'stdout', 'two\n'],
        ['5', 'complete', undefined],
      ])
    }))

  it('needs a caller that the server knows, and a number', () =>
    withServer(async (place) => {
      const send = (name: string) =>
        place.call('POST', '/v1/exec', { command: 'true' }, { 'x-nacre-call': name })
      expect(await send(`${randomUUID()}/1`)).toMatchObject({
        status: 404,
        body: { code: 'CALLER_NOT_FOUND' },
      })
      expect(await send('something')).toMatchObject({ status: 400, body: { code: 'VALIDATION_FAILED' } })
      expect(await send(`${await register(place)}/0`)).toMatchObject({ status: 400 })
      expect((await place.post('/v1/callers', { keep: 600_001 })).status).toBe(400)
    }))
})

describe('the numbers of a caller', () => {
  it('are used once each, in any order, and with gaps', () => {
    const used = new UsedNumbers()
    expect([3, 1, 3, 1, 2, 2, 4].map((number) => used.take(number))).toEqual([
      true,
      true,
      false,
      false,
      true,
      false,
      true,
    ])
  })

  it('count as used when they are thousands behind', () => {
    const used = new UsedNumbers()
    for (let number = 2; number < 10_000; number++) expect(used.take(number)).toBe(true)
    expect(used.take(1)).toBe(false)
  })
})

describe('the header X-Nacre-Token', () => {
  const token = 'a-token-of-the-tests'

  it('is accepted instead of Authorization, and alone counts when it is there', () =>
    withServer(
      async ({ url }) => {
        const status = async (headers: Record<string, string>) =>
          (await fetch(`${url}/v1/sessions`, { headers })).status
        expect(await status({ 'x-nacre-token': token })).toBe(200)
        expect(await status({ 'x-nacre-token': token, authorization: 'Bearer of-the-proxy' })).toBe(200)
        expect(await status({ 'x-nacre-token': `${token}x` })).toBe(401)
        expect(await status({ 'x-nacre-token': 'wrong', authorization: `Bearer ${token}` })).toBe(401)
        expect(await status({})).toBe(401)
      },
      { token },
    ))

  it('is in the OpenAPI document', () =>
    withServer(async ({ get }) => {
      const { body } = await get('/openapi.json')
      expect(body.components.securitySchemes.header).toMatchObject({ type: 'apiKey', name: 'X-Nacre-Token' })
      expect(body.security).toContainEqual({ header: [] })
    }))
})

describe('the instance of a server', () => {
  it('is in every response, and keeps requests for another one from running', () =>
    withServer(async ({ url, call }) => {
      const instances = await Promise.all(
        ['/healthz', '/v1/sessions', '/nowhere'].map(async (path) =>
          (await fetch(url + path)).headers.get('x-nacre-instance'),
        ),
      )
      expect(new Set(instances).size).toBe(1)
      const exec = (instance: string) =>
        call('POST', '/v1/exec', { command: 'echo run' }, { 'x-nacre-instance': instance })
      expect((await exec(instances[0] ?? '')).status).toBe(200)
      expect(await exec(randomUUID())).toMatchObject({ status: 412, body: { code: 'INSTANCE_CHANGED' } })
    }))
})
