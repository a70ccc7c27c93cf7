/** Requests of hostile clients: every route refuses them before it does anything. */
import { connect } from 'node:net'
import { createServer } from '@nacre/server'
import { Sandbox } from 'nacre'
import { expect, it } from 'vitest'
import { withServer } from '../../../__test__/helpers/http.js'

const TOKEN = 'a-token-for-tests'

const { paths } = createServer(new Sandbox()).document() as { paths: Record<string, Record<string, object>> }

/** Every route but the health check, which needs no token. */
const routes = Object.entries(paths).flatMap(([path, methods]) =>
  Object.keys(methods).map((method): [string, string] => [
    method.toUpperCase(),
    path.replaceAll(/\{\w+\}/g, '1'),
  ]),
)
const guarded = routes.filter(([, path]) => path !== '/healthz')

/** More than the buffers of a connection. */
const LARGE_CHUNK = `7a1200\r\n${'x'.repeat(8_000_000)}\r\n0\r\n\r\n`

interface Sent {
  headers?: string[]
  body?: string
  version?: string
}

/** The status of a raw request; 0 if the connection closes without a reply. */
function statusOf(port: number, method: string, path: string, sent: Sent = {}): Promise<number> {
  const { headers = ['Host: localhost'], body = '', version = '1.1' } = sent
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    let text = ''
    socket.on('data', (data) => {
      text += data
    })
    socket.on('error', reject)
    socket.on('close', () => resolve(Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1] ?? 0)))
    const own = headers.some((header) => /^connection:/i.test(header)) ? [] : ['Connection: close']
    socket.write(`${method} ${path} HTTP/${version}\r\n${[...headers, ...own, '', ''].join('\r\n')}${body}`)
    // A route that streams would go on.
    socket.on('data', () => socket.end())
  })
}

async function expectAll(port: number, sent: Sent, ...expected: number[]): Promise<void> {
  for (const [method, path] of guarded) {
    const status = await statusOf(port, method, path, sent)
    if (!expected.includes(status)) expect([method, path, sent.headers, status]).toEqual(expected)
  }
}

it('without the token, or with the token in a wrong place', () =>
  withServer(
    async ({ serving: { port } }) => {
      for (const header of [
        'X-Nothing: 1',
        `Authorization: ${TOKEN}`,
        `Authorization: Basic ${TOKEN}`,
        `Authorization: Bearer ${TOKEN}x`,
        `Authorization: Bearer ${TOKEN} ${TOKEN}`,
        `Cookie: token=${TOKEN}`,
        `X-Nacre-Token: ${TOKEN}, ${TOKEN}`,
        `Sec-WebSocket-Protocol: nacre.token.${TOKEN}`,
        `Proxy-Authorization: Bearer ${TOKEN}`,
      ])
        await expectAll(port, { headers: ['Host: localhost', header] }, 401)
      for (const [method, path] of guarded)
        expect(await statusOf(port, method, `${path}?token=${TOKEN}`), path).toBe(401)
    },
    { token: TOKEN },
  ))

it('from pages, also with the token', () =>
  withServer(
    async ({ serving: { port } }) => {
      const known = ['Host: localhost', `Authorization: Bearer ${TOKEN}`]
      for (const origin of [
        'https://evil.example',
        'null',
        `http://localhost:${port}`,
        'http://localhost',
        '',
      ])
        await expectAll(port, { headers: [...known, `Origin: ${origin}`] }, 403)
    },
    { token: TOKEN },
  ))

it('to another name, without a token: a page whose name was made to point here', () =>
  withServer(async ({ serving: { port } }) => {
    for (const host of [
      'evil.example',
      `evil.example:${port}`,
      'localhost.evil.example',
      '127.0.0.1.evil.example',
      'evil.example#localhost',
      'localhost@evil.example',
      '0.0.0.0',
      '[::ffff:7f00:1]',
      '2130706433',
      '',
    ])
      await expectAll(port, { headers: [`Host: ${host}`] }, 400, 403)
    await expectAll(port, { headers: ['Host: localhost', 'Host: evil.example'] }, 400, 403)
    await expectAll(port, { headers: [] }, 400)
    for (const header of ['X-Forwarded-For: 127.0.0.1', 'Forwarded: for=127.0.0.1', 'Via: 1.1 proxy'])
      await expectAll(port, { headers: ['Host: localhost', header] }, 403)
  }))

it('with a body above the limit', () =>
  withServer(
    async ({ serving: { port } }) => {
      const bodies = Object.entries(paths).flatMap(([path, methods]) =>
        'post' in methods && 'requestBody' in (methods.post as object)
          ? [path.replaceAll(/\{\w+\}/g, '1')]
          : [],
      )
      expect(bodies.length).toBeGreaterThan(20)
      const head = ['Host: localhost', 'Content-Type: application/json']
      const body = JSON.stringify({ a: 'x'.repeat(2000) })
      const chunk = `${body.length.toString(16)}\r\n${body}\r\n`
      // A client that goes on to send gets the reply, too.
      const keep = [...head, 'Connection: keep-alive']
      for (const path of ['/v1/exec', '/v1/processes', '/api/execute']) {
        const chunked = { headers: [...keep, 'Transfer-Encoding: chunked'], body: LARGE_CHUNK }
        expect([path, await statusOf(port, 'POST', path, chunked)]).toEqual([path, 413])
        const whole = { headers: [...keep, `Content-Length: ${LARGE_CHUNK.length}`], body: LARGE_CHUNK }
        expect([path, await statusOf(port, 'POST', path, whole)]).toEqual([path, 413])
        const foreign = [...keep, 'Origin: https://evil.example', 'Transfer-Encoding: chunked']
        expect(await statusOf(port, 'POST', path, { headers: foreign, body: LARGE_CHUNK })).toBe(403)
      }
      for (const path of bodies) {
        const length = [...head, `Content-Length: ${body.length}`]
        expect([path, await statusOf(port, 'POST', path, { headers: length, body })]).toEqual([path, 413])
        const chunked = [...head, 'Transfer-Encoding: chunked']
        // The end of it need not arrive.
        for (const sent of [`${chunk}0\r\n\r\n`, chunk])
          expect([path, await statusOf(port, 'POST', path, { headers: chunked, body: sent })]).toEqual([
            path,
            413,
          ])
        const both = [...chunked, `Content-Length: 7`]
        expect([path, await statusOf(port, 'POST', path, { headers: both, body: chunk })]).toEqual([
          path,
          400,
        ])
      }
    },
    { maxBodyBytes: 1024 },
  ))

it('that offer another protocol, or speak HTTP/1.0', () =>
  withServer(
    async ({ serving: { port } }) => {
      const offer = ['Host: localhost', 'Connection: Upgrade, close', 'Upgrade: h2c']
      await expectAll(port, { headers: offer }, 401)
      await expectAll(port, { headers: [], version: '1.0' }, 401)
      await expectAll(port, { headers: ['Host: evil.example', 'Origin: null'], version: '1.0' }, 403)
      const socket = [
        'Host: localhost',
        'Connection: Upgrade',
        'Upgrade: websocket',
        'Sec-WebSocket-Version: 13',
      ]
      await expectAll(port, { headers: [...socket, 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=='] }, 401)
      expect(await statusOf(port, 'GET', '/healthz', { headers: [], version: '1.0' })).toBe(200)
    },
    { token: TOKEN },
  ))
