/** Files over HTTP as clients without nacre use them: ranges, long bodies, slow bodies, broken connections. */
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { withServer } from '../helpers/http.js'
import { holds } from '../helpers/until.js'

const CONTENT = '/v1/sessions/default/files/content'

it('Range is answered with 206 or 416, and HEAD with the length', () =>
  withServer(async ({ url, directory }) => {
    writeFileSync(path.join(directory, 'x'), '0123456789')
    const get = async (range: string, method = 'GET') => {
      const response = await fetch(`${url}${CONTENT}?path=x`, { method, headers: range ? { range } : {} })
      return [response.status, await response.text(), response.headers.get('content-range')]
    }
    expect(await get('')).toEqual([200, '0123456789', null])
    expect(await get('bytes=2-4')).toEqual([206, '234', 'bytes 2-4/10'])
    expect(await get('bytes=8-')).toEqual([206, '89', 'bytes 8-9/10'])
    expect(await get('bytes=-3')).toEqual([206, '789', 'bytes 7-9/10'])
    expect(await get('bytes=-30')).toEqual([206, '0123456789', 'bytes 0-9/10'])
    expect(await get('bytes=5-99')).toEqual([206, '56789', 'bytes 5-9/10'])
    expect(await get('bytes=10-')).toEqual([416, '', 'bytes */10'])
    for (const ignored of ['bytes=4-2', 'lines=1-2', 'bytes=0-1,3-4', 'bytes=-', 'bytes=a-b'])
      expect(await get(ignored)).toEqual([200, '0123456789', null])
    const head = await fetch(`${url}${CONTENT}?path=x`, { method: 'HEAD' })
    expect([head.status, head.headers.get('content-length')]).toEqual([200, '10'])
    expect((await fetch(`${url}${CONTENT}?path=none`, { method: 'HEAD' })).status).toBe(404)
  }))

it('errors are envelopes with the path', () =>
  withServer(async ({ get, post, call }) => {
    expect((await get(`${CONTENT}?path=none`)).body).toMatchObject({
      code: 'FILE_NOT_FOUND',
      httpStatus: 404,
      context: { name: 'SandboxError', kind: 'not-found', path: 'none', sessionId: 'default' },
    })
    expect((await get(CONTENT)).body).toMatchObject({ code: 'INVALID_OPTION' })
    expect((await get(`${CONTENT}?path=a&pathBase64=YQ==`)).body).toMatchObject({ code: 'INVALID_OPTION' })
    expect((await get(`${CONTENT}?path=`)).body).toMatchObject({ code: 'INVALID_PATH' })
    expect((await get('/v1/sessions/none/files/list')).body).toMatchObject({ code: 'SESSION_NOT_FOUND' })
    expect((await post('/v1/sessions/default/files/mkdir', {})).body).toMatchObject({
      code: 'INVALID_OPTION',
    })
    expect((await call('PUT', `${CONTENT}?path=x&mode=99999`, {})).body).toMatchObject({
      code: 'INVALID_OPTION',
    })
  }))

it('an upload may be longer than maxBodyBytes and slower than requestTimeout', () =>
  withServer(
    async ({ url, directory }) => {
      async function* slowly() {
        for (let part = 0; part < 8; part++) {
          yield Buffer.alloc(100_000, part)
          await sleep(250)
        }
      }
      const body = ReadableStream.from(slowly()) as unknown as RequestInit['body']
      const response = await fetch(`${url}${CONTENT}?path=x`, {
        method: 'PUT',
        body,
        duplex: 'half',
      } as RequestInit)
      expect([response.status, ((await response.json()) as { size: number }).size]).toEqual([200, 800_000])
      expect(readFileSync(path.join(directory, 'x'))[799_999]).toBe(7)
      const other = await fetch(`${url}/v1/exec`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ command: 'x'.repeat(2000) }),
      })
      expect(other.status).toBe(413)
    },
    { maxBodyBytes: 1000, headersTimeout: 500, requestTimeout: 1000 },
  ))

it('an upload without the token is refused before it is read', () =>
  withServer(
    async ({ url, directory }) => {
      const response = await fetch(`${url}${CONTENT}?path=x`, { method: 'PUT', body: 'x' })
      expect(response.status).toBe(401)
      expect(readdirSync(directory)).toEqual([])
    },
    { token: 'a-token-for-the-tests' },
  ))

it('a client that disconnects in the middle leaves the old file and nothing else', () =>
  withServer(async ({ serving, directory }) => {
    mkdirSync(path.join(directory, 'd'))
    writeFileSync(path.join(directory, 'd/x'), 'old')
    for (const framing of ['content-length: 9999999', 'transfer-encoding: chunked']) {
      const socket = connect(serving.port, '127.0.0.1')
      await once(socket, 'connect')
      socket.write(`PUT ${CONTENT}?path=d/x HTTP/1.1\r\nhost: localhost\r\n${framing}\r\n\r\n`)
      socket.write(`f4240\r\n${'x'.repeat(1_000_000)}`)
      await holds(() => readdirSync(path.join(directory, 'd')).length === 2)
      socket.destroy()
      await holds(() => readdirSync(path.join(directory, 'd')).length === 1)
      expect(readFileSync(path.join(directory, 'd/x'), 'utf8')).toBe('old')
    }
  }))

it('a refused upload is answered, however long it is', () =>
  withServer(async ({ url, directory }) => {
    mkdirSync(path.join(directory, 'd'))
    const body = Buffer.alloc(20_000_000)
    const response = await fetch(`${url}${CONTENT}?path=d`, { method: 'PUT', body }).catch((error) => error)
    // A client may see the broken connection before the answer.
    if (response instanceof Response) expect(await response.json()).toMatchObject({ code: 'IS_A_DIRECTORY' })
    expect(readdirSync(path.join(directory, 'd'))).toEqual([])
  }))
