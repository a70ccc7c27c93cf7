/** Ports of the sandbox over HTTP: what programs get, what clients get, and what neither can reach. */
import { once } from 'node:events'
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import { type AddressInfo, connect, createServer } from 'node:net'
import { text } from 'node:stream/consumers'
import { type ServeOptions, serve } from '@nacre/server'
import { SandboxClient } from 'nacre/client'
import { describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { type HttpPlace, withServer } from '../../../__test__/helpers/http.js'
import { rejectionOf } from '../../../__test__/helpers/thrown.js'
import { holds, until } from '../../../__test__/helpers/until.js'
import { type Answer, exchange, raw, startProgram } from './port-program.js'

const TOKEN = 'a-token-for-tests'

interface Place extends HttpPlace {
  port: number
  /** Below the port, with the token unless `headers` have another one. */
  send(
    path: string,
    options?: { method?: string; headers?: OutgoingHttpHeaders; body?: string },
  ): Promise<Answer>
}

function withPorts(test: (place: Place) => Promise<void>, options: ServeOptions = {}): Promise<void> {
  return withServer(
    async (place) => {
      const port = await startProgram(place.sandbox)
      const send: Place['send'] = (path, { headers, ...rest } = {}) =>
        exchange(place.url, `/v1/ports/${port}${path}`, {
          ...rest,
          headers: { authorization: `Bearer ${TOKEN}`, ...headers },
        })
      await test({ ...place, port, send })
    },
    { token: TOKEN, forwardPorts: true, ...options },
  )
}

describe('a forwarded port', () => {
  it('takes requests of every method, with their bodies, queries and headers', () =>
    withPorts(async ({ port, send }) => {
      for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND']) {
        const body = method === 'GET' ? '' : 'body'
        const headers = { 'x-own': 'a', 'content-length': body.length }
        const { status, json } = await send('/a%20b//c%E9?x=1&y=%2f', { method, body, headers })
        expect([status, json.method, json.url, json.body]).toEqual([
          200,
          method,
          '/a%20b//c%E9?x=1&y=%2f',
          body,
        ])
        expect(json.headers).toMatchObject({ host: `localhost:${port}`, 'x-own': 'a' })
      }
      const { status, text } = await send('/', { method: 'HEAD' })
      expect([status, text]).toEqual([200, ''])
    }))

  it('streams bodies both ways, and server-sent events at once', () =>
    withPorts(
      async ({ serving, port, send }) => {
        const socket = connect(serving.port, '127.0.0.1')
        let received = ''
        socket.on('data', (data) => {
          received += data
        })
        const head = [`POST /v1/ports/${port}/events HTTP/1.1`, 'host: localhost', `x-nacre-token: ${TOKEN}`]
        socket.write([...head, 'transfer-encoding: chunked', '', ''].join('\r\n'))
        await until(
          () => received.includes('text/event-stream') || undefined,
          () => received,
        )
        for (const word of ['one', 'two']) {
          socket.write(`3\r\n${word}\r\n`)
          await until(
            () => received.includes(`data: ${word}\n\n`) || undefined,
            () => received,
          )
        }
        socket.write('0\r\n\r\n')
        await until(
          () => received.endsWith('0\r\n\r\n') || undefined,
          () => received,
        )
        socket.destroy()
        expect((await send('/large?50000000')).text.length).toBeGreaterThanOrEqual(50_000_000)
        const body = 'x'.repeat(20_000_000)
        expect((await send('/', { method: 'POST', body })).json.body === body).toBe(true)
        expect(await send('/early', { method: 'POST', body })).toMatchObject({
          status: 413,
          text: 'too much',
        })
      },
      { maxBodyBytes: 1000 },
    ))

  it('takes WebSockets, with the token as a header or a subprotocol', () =>
    withPorts(async ({ serving, port }) => {
      const url = `ws://127.0.0.1:${serving.port}/v1/ports/${port}/chat?x`
      const ways = [
        () => new WebSocket(url, ['own', 'other'], { headers: { 'x-nacre-token': TOKEN } }),
        () => new WebSocket(url, ['own', `nacre.token.${TOKEN}`]),
      ]
      for (const open of ways) {
        const socket = open()
        const [first] = (await once(socket, 'message')) as [Buffer]
        const { url: path, headers } = JSON.parse(first.toString())
        expect([path, headers.host]).toEqual(['/chat?x', `localhost:${port}`])
        expect(JSON.stringify(headers)).not.toContain(TOKEN)
        socket.send('ping')
        expect(String((await once(socket, 'message'))[0])).toBe('ping')
        socket.close()
        await once(socket, 'close')
      }
      const refused = new WebSocket(url, ['own'])
      expect((await once(refused, 'unexpected-response'))[1].statusCode).toBe(401)
      const declined = new WebSocket(url.replace('chat', 'declines').replace('?x', ''), {
        headers: { 'x-nacre-token': TOKEN },
      })
      const [, response] = (await once(declined, 'unexpected-response')) as [unknown, IncomingMessage]
      expect([response.statusCode, response.headers.connection, await text(response)]).toEqual([
        403,
        'close',
        'no',
      ])
    }))

  it('cuts a reply that the program has not finished, and refuses what is not HTTP', () =>
    withPorts(async ({ send }) => {
      expect((await rejectionOf(send('/break'))).message).toMatch(/aborted|terminated|closed|reset/i)
      for (const path of ['/bad', '/both'])
        expect(await send(path)).toMatchObject({ status: 502, json: { code: 'BAD_GATEWAY' } })
      expect(await send('/')).toMatchObject({ status: 200 })
    }))

  it('is reached with a link, until it expires, and by no other port', () =>
    withPorts(async ({ serving, sandbox, port, url: server }) => {
      const client = new SandboxClient({ url: server, token: TOKEN })
      const url = await client.portUrl(port)
      expect(url).toMatch(new RegExp(`^${server}/v1/ports/${port}~[\\w.-]+/$`))
      const page = new URL('page?x=1', url)
      const reply = await (
        await fetch(page, { method: 'POST', body: 'body', headers: { authorization: 'Basic eDp5' } })
      ).json()
      expect(reply).toMatchObject({
        method: 'POST',
        url: '/page?x=1',
        body: 'body',
        headers: { authorization: 'Basic eDp5' },
      })
      expect(JSON.stringify(reply)).not.toContain(new URL(url).pathname.split('~')[1])
      const socket = new WebSocket(page.href.replace('http', 'ws'))
      await once(socket, 'message')
      socket.terminate()

      const other = await startProgram(sandbox)
      const altered = [
        url.replace(`/${port}~`, `/${other}~`),
        url.replace('/v1/ports/', '/v1/sessions/default/ports/'),
        url.replace(/.\/$/, (end) => (end === 'A/' ? 'B/' : 'A/')),
        // The same bits, written in another way.
        url.replace(/.\/$/, (end) => `${String.fromCharCode(end.charCodeAt(0) + 1)}/`),
        url.replace(/~[^.]+/, '~zzzzzzzzz'),
        url.replace(/~.*/, '~/'),
      ]
      for (const wrong of altered) expect((await fetch(wrong)).status, wrong).toBe(401)
      const short = await client.portUrl(port, { expiresIn: 1 })
      await holds(async () => (await fetch(short)).status === 401)
      expect((await fetch(new URL('../exec', url))).status).toBe(401)
      for (const bad of [0, 65_536])
        expect(await rejectionOf(client.portUrl(bad))).toMatchObject({ code: 'INVALID_OPTION' })
      const missing = client.portUrl(port, { sessionId: 'none' })
      expect(await rejectionOf(missing)).toMatchObject({ code: 'SESSION_NOT_FOUND' })
      await client.close()
      await using second = await serve(sandbox, { port: 0, token: TOKEN, forwardPorts: true })
      expect((await fetch(url.replace(`:${serving.port}`, `:${second.port}`))).status).toBe(401)
    }))

  it('is that of a session by its id, also in a network namespace', () =>
    withPorts(async ({ sandbox, port, url, serving }) => {
      const session = await sandbox.createSession({ id: 'own', isolation: 'workspace' })
      const inner = await startProgram(session)
      const headers = { 'x-nacre-token': TOKEN }
      const statusOf = async (path: string) => (await exchange(url, path, { headers })).status
      expect(await statusOf(`/v1/sessions/own/ports/${inner}/`)).toBe(200)
      expect(await statusOf(`/v1/ports/${inner}/`)).toBe(200)
      expect(await statusOf(`/v1/sessions/default/ports/${port}/`)).toBe(200)
      expect(await statusOf(`/v1/sessions/own/ports/${port}/`)).toBe(502)
      expect(await statusOf(`/v1/sessions/none/ports/${port}/`)).toBe(404)
      const client = new SandboxClient({ url, token: TOKEN })
      const link = await client.portUrl(inner, { sessionId: 'own' })
      expect((await fetch(link)).status).toBe(200)
      expect((await client.ports()).map(({ sessionId }) => sessionId).sort()).toEqual(['default', 'own'])
      await client.close()
      expect(serving.port).toBeGreaterThan(0)
    }))

  it('is never one of the machine, nor that of the server', () =>
    withPorts(async ({ url, serving }) => {
      const other = createServer((socket) => socket.end('HTTP/1.1 200 OK\r\n\r\n')).listen(0, '127.0.0.1')
      await once(other, 'listening')
      const { port } = other.address() as AddressInfo
      for (const foreign of [port, serving.port])
        for (const host of ['localhost', '127.0.0.1', `localhost:${port}`])
          expect(
            await exchange(url, `/v1/ports/${foreign}/`, { headers: { host, 'x-nacre-token': TOKEN } }),
          ).toMatchObject({ status: 502, json: { code: 'PORT_CLOSED' } })
      for (const [path, status] of [
        ['/v1/ports/0/', 400],
        ['/v1/ports/65536/', 400],
        ['/v1/ports/999999/', 404],
        ['/v1/ports/-1/', 404],
        ['/v1/ports/80@evil.example/', 404],
        ['/v1/ports/http:80/', 404],
      ] as const)
        expect((await exchange(url, path, { headers: { 'x-nacre-token': TOKEN } })).status, path).toBe(status)
      other.close()
    }))
})

describe('the program on a port', () => {
  it('gets neither the token, nor what clients tell the server or proxies', () =>
    withPorts(async ({ url, port, serving }) => {
      const hosts = `127.0.0.1:${serving.port}`
      const { json } = await exchange(url, `/v1/ports/${port}/`, {
        headers: {
          host: hosts,
          authorization: `Bearer ${TOKEN}`,
          'x-nacre-hold': 'hold',
          'x-forwarded-for': '10.0.0.1',
          forwarded: 'for=10.0.0.1',
          'x-own-token': `Token ${TOKEN}`,
          cookie: `session=secret; nacre-${port}-own=1; nacre-1-other=2`,
          referer: `http://${hosts}/v1/exec?secret`,
          origin: `http://${hosts}`,
          connection: 'close, x-hop',
          'x-hop': 'hop',
        },
      })
      expect(JSON.stringify(json)).not.toContain(TOKEN)
      const { host, origin, cookie, connection, ...others } = json.headers
      expect([host, origin, cookie, connection]).toEqual([
        `localhost:${port}`,
        `http://localhost:${port}`,
        'own=1',
        'keep-alive',
      ])
      expect(Object.keys(others)).toEqual([])
      const kept = await exchange(url, `/v1/ports/${port}/`, {
        headers: {
          host: hosts,
          authorization: 'Basic eDp5',
          'x-nacre-token': TOKEN,
          referer: `http://${hosts}/v1/ports/${port}/page?x`,
        },
      })
      expect(kept.json.headers).toMatchObject({
        authorization: 'Basic eDp5',
        referer: `http://localhost:${port}/page?x`,
      })
    }))

  it('cannot reach beyond its path: redirects, cookies, and headers for the whole origin', () =>
    withPorts(async ({ port, send, url }) => {
      const prefix = `/v1/ports/${port}`
      const own = new URL(url).host
      for (const [to, location] of [
        ['/login?x#y', `${prefix}/login?x#y`],
        ['../../v1/exec', `${prefix}/v1/exec`],
        ['page', `${prefix}/page`],
        [`http://localhost:${port}/a`, `${prefix}/a`],
        [`https://127.0.0.1:${port}/a`, `${prefix}/a`],
        [`//${own}/v1/exec`, `${prefix}/v1/exec`],
        [`http://${own}/v1/exec`, `${prefix}/v1/exec`],
        ['http://[', `${prefix}/`],
        ['https://example.com/x', 'https://example.com/x'],
      ]) {
        const { status, headers } = await send(`/redirect?to=${encodeURIComponent(to ?? '')}`)
        expect([status, headers.location], to).toEqual([302, location])
      }
      const cookies = [
        'a=1; Path =/; Domain\t= example.com; HttpOnly',
        'b=2; path=/other; path = /sub; Secure',
      ]
      const dangerous = { 'service-worker-allowed': '/', 'clear-site-data': '"*"', 'alt-svc': 'h2=":1"' }
      const all = {
        'x-own': 'kept',
        'x-nacre-instance': 'x',
        'strict-transport-security': 'max-age=1',
        ...dangerous,
      }
      const query = new URLSearchParams(all)
      for (const cookie of cookies) query.append('set-cookie', cookie)
      const { headers } = await send(`/headers?${query}`)
      expect(headers['set-cookie']).toEqual([
        `nacre-${port}-a=1; Path=${prefix}/; HttpOnly`,
        `nacre-${port}-b=2; Path=${prefix}/sub; Secure`,
      ])
      expect(headers['x-own']).toBe('kept')
      for (const name of Object.keys(all)) if (name !== 'x-own') expect(headers[name], name).toBeUndefined()
    }))

  it('gets only whole requests: nothing that is smuggled becomes one', () =>
    withPorts(async (place) => {
      const head = [`POST /v1/ports/${place.port}/ HTTP/1.1`, 'host: localhost', `x-nacre-token: ${TOKEN}`]
      const smuggled = 'GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n'
      const chunk = `0\r\n\r\n${smuggled}`
      for (const lines of [
        [`content-length: ${chunk.length}`, 'transfer-encoding: chunked', '', chunk],
        ['content-length: 0', `content-length: ${smuggled.length}`, '', smuggled],
        ['transfer-encoding: gzip, chunked', '', chunk],
        ['transfer-encoding: xchunked', '', chunk],
        ['transfer-encoding : chunked', '', chunk],
        [`content-length: +${smuggled.length}`, '', smuggled],
      ]) {
        const reply = await raw(place, [...head, 'connection: close', ...lines])
        expect(reply, lines.join('|')).not.toContain('/smuggled')
        expect(reply).toMatch(/^HTTP\/1\.1 4\d\d /)
      }
      // What follows a whole request is a request to the server, which needs the token.
      const reply = await raw(place, [
        ...head,
        'content-length: 4',
        '',
        `body${smuggled.replace('\r\n\r\n', '\r\nconnection: close\r\n\r\n')}`,
      ])
      expect(reply.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 401'])
      // A declined WebSocket does not leave the connection to the program.
      const upgrade = [
        `GET /v1/ports/${place.port}/declines HTTP/1.1`,
        ...head.slice(1),
        'connection: upgrade',
      ]
      const key = [
        'upgrade: websocket',
        'sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==',
        'sec-websocket-version: 13',
      ]
      const declined = await raw(place, [...upgrade, ...key, '', smuggled])
      expect(declined.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 403'])
    }))

  it('gets no path that another reader would take for another one', () =>
    withPorts(async ({ url, port }) => {
      const prefix = `/v1/ports/${port}`
      for (const rest of ['/../exec', '/a/..', '/./', '/%2e%2e/exec', '/.%2E/exec', '/a\\..\\b', '/..?x'])
        expect(
          (await exchange(url, prefix + rest, { headers: { 'x-nacre-token': TOKEN } })).status,
          rest,
        ).toBe(400)
      const { status, headers } = await exchange(url, `${prefix}?x=1`, {
        headers: { 'x-nacre-token': TOKEN },
      })
      expect([status, headers.location]).toEqual([307, `${prefix}/?x=1`])
      const kept = await exchange(url, `${prefix}/a..b/.well-known?../x`, {
        headers: { 'x-nacre-token': TOKEN },
      })
      expect(kept.json.url).toBe('/a..b/.well-known?../x')
    }))
})

describe('who may call', () => {
  it('a port needs the token or a link, and an origin of its own', () =>
    withPorts(async ({ send, serving }) => {
      for (const authorization of ['', 'Bearer wrong', `Basic ${TOKEN}`])
        expect((await send('/', { headers: { authorization } })).status).toBe(401)
      const host = `127.0.0.1:${serving.port}`
      const statusOf = async (origin: string) => (await send('/', { headers: { host, origin } })).status
      expect(await statusOf(`http://${host}`)).toBe(200)
      for (const origin of [
        'null',
        'https://evil.example',
        `http://localhost:${serving.port}`,
        'http://127.0.0.1',
      ])
        expect(await statusOf(origin), origin).toBe(403)
    }))

  it('without a token, only programs and pages of this machine call ports, and no page calls the server', () =>
    withServer(
      async ({ sandbox, url, serving }) => {
        const port = await startProgram(sandbox)
        const host = `127.0.0.1:${serving.port}`
        const statusOf = async (path: string, headers: OutgoingHttpHeaders) =>
          (await exchange(url, path, { headers: { host, ...headers } })).status
        const path = `/v1/ports/${port}/`
        const same = { 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors' }
        expect(await statusOf(path, {})).toBe(200)
        expect(await statusOf(path, same)).toBe(200)
        // A page of another port of this machine is of the same site.
        for (const site of ['cross-site', 'same-site']) {
          const from = (mode: string) => ({ 'sec-fetch-site': site, 'sec-fetch-mode': mode })
          expect(await statusOf(path, from('navigate')), site).toBe(200)
          expect(await statusOf(path, from('no-cors')), site).toBe(403)
        }
        expect(await statusOf(path, { host: 'evil.example' })).toBe(403)
        expect(await statusOf(path, { 'x-forwarded-for': '10.0.0.1' })).toBe(403)
        expect(await statusOf('/v1/sessions', {})).toBe(200)
        expect(await statusOf('/v1/sessions', { 'sec-fetch-site': 'none' })).toBe(200)
        expect(await statusOf('/v1/sessions', same)).toBe(403)
        expect(await statusOf('/v1/sessions', { origin: `http://${host}` })).toBe(403)
      },
      { forwardPorts: true },
    ))

  it('nothing is forwarded by default, and the option excludes what it would weaken', () =>
    withServer(
      async ({ sandbox, url }) => {
        const port = await startProgram(sandbox)
        const headers = { 'x-nacre-token': TOKEN }
        expect((await exchange(url, `/v1/ports/${port}/`, { headers })).status).toBe(404)
        const client = new SandboxClient({ url, token: TOKEN })
        const refused = await rejectionOf(client.portUrl(port))
        expect(refused).toMatchObject({
          code: 'REQUEST_REFUSED',
          message: expect.stringContaining('forwardPorts'),
        })
        expect(
          await rejectionOf(serve(sandbox, { port: 0, forwardPorts: true, console: true })),
        ).toMatchObject({
          code: 'INVALID_OPTION',
          message: expect.stringContaining('console and forwardPorts exclude each other'),
        })
        expect(await rejectionOf(serve(client, { port: 0, forwardPorts: true }))).toMatchObject({
          code: 'INVALID_OPTION',
          message: expect.stringContaining('not a client'),
        })
        await client.close()
      },
      { token: TOKEN },
    ))

  it('the end of the server ends what it forwards', () =>
    withServer(
      async ({ sandbox, serving }) => {
        const port = await startProgram(sandbox)
        const socket = new WebSocket(`ws://127.0.0.1:${serving.port}/v1/ports/${port}/`)
        await once(socket, 'message')
        const end = once(socket, 'close')
        expect(await serving.close()).toBe(true)
        await end
      },
      { forwardPorts: true },
    ))
})
