/** Forks over HTTP: the routes of each, the same port in each, and what the pages of their programs cannot reach. */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import type { OutgoingHttpHeaders } from 'node:http'
import { type AddressInfo, connect, createServer } from 'node:net'
import path from 'node:path'
import { type ServeOptions, serve } from '@nacre/server'
import { Sandbox, type SandboxOptions } from 'nacre'
import { SandboxClient } from 'nacre/client'
import { describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { type HttpPlace, withServer } from '../../../__test__/helpers/http.js'
import { rejectionOf } from '../../../__test__/helpers/thrown.js'
import { until } from '../../../__test__/helpers/until.js'
import { type Answer, exchange, raw, startProgram } from './port-program.js'

const TOKEN = 'a-token-for-tests'
const PORT = 3000

interface Place extends HttpPlace {
  /** Two forks: red and blue. */
  red: Sandbox
  blue: Sandbox
  /** The host of port 3000 in a fork. */
  host(name: string): string
  /** To a host, with the token unless `headers` have another one. */
  send(
    host: string,
    path: string,
    options?: { method?: string; headers?: OutgoingHttpHeaders; body?: string },
  ): Promise<Answer>
}

interface Given {
  options?: SandboxOptions
  serving?: ServeOptions
}

function withForks(test: (place: Place) => Promise<void>, given: Given = {}): Promise<void> {
  const { options, serving = { token: TOKEN } } = given
  return withServer(
    async (place) => {
      const red = await place.sandbox.fork({ name: 'red' })
      const blue = await place.sandbox.fork({ name: 'blue' })
      const token = serving.token === undefined ? {} : { 'x-nacre-token': TOKEN }
      try {
        await test({
          ...{ ...place, red, blue },
          host: (name) => `${PORT}.${name}.localhost:${place.serving.port}`,
          send: (host, path, { headers, ...rest } = {}) =>
            exchange(place.url, path, { ...rest, headers: { host, ...token, ...headers } }),
        })
      } finally {
        await Promise.all([red.destroy(), blue.destroy()])
      }
    },
    { forks: true, ...serving },
    { options: { workspace: 'copy-on-write', isolation: 'workspace', ...options } },
  )
}

describe('the same port in each fork', () => {
  it('leads to the program of that fork, whose name for itself is the one in the address', () =>
    withForks(async ({ red, blue, sandbox, host, send }) => {
      const server = (name: string) =>
        `exec node -e "require('http').createServer((q, r) => r.end('${name} ' + q.method + q.url)).listen(3000, () => console.log('up'))"`
      for (const [fork, name] of [
        [red, 'red'],
        [blue, 'blue'],
        [sandbox, 'the first'],
      ] as const)
        await (await fork.startProcess(server(name))).waitForLog('up')
      for (const name of ['red', 'blue'])
        expect(await send(host(name), '/a?x=1')).toMatchObject({ status: 200, text: `${name} GET/a?x=1` })
      expect((await send(host('RED').toUpperCase(), '/', { method: 'POST', body: 'x' })).text).toBe(
        'red POST/',
      )
      // The sandbox itself is no fork.
      expect((await send(host('default'), '/')).status).toBe(404)
    }))

  it('takes requests of every kind: bodies, events, WebSockets', () =>
    withForks(async ({ red, host, send, serving }) => {
      await startProgram(red, PORT)
      const own = host('red')
      const origin = `http://${own}`
      const { json } = await send(own, '/a%20b//c?x=%2f', {
        ...{ method: 'PUT', body: 'body' },
        headers: { origin, referer: `${origin}/page`, cookie: 'own=1', 'content-length': 4 },
      })
      expect(json).toMatchObject({ method: 'PUT', url: '/a%20b//c?x=%2f', body: 'body' })
      expect(json.headers).toEqual({
        ...{ host: own, origin, referer: `${origin}/page`, cookie: 'own=1', 'content-length': '4' },
        connection: 'keep-alive',
      })
      expect((await send(own, '/large?50000000')).text.length).toBeGreaterThanOrEqual(50_000_000)

      const socket = connect(serving.port, '127.0.0.1')
      let received = ''
      socket.on('data', (data) => {
        received += data
      })
      const has = (what: string) =>
        until(
          () => received.includes(what) || undefined,
          () => received,
        )
      const lines = ['POST /events HTTP/1.1', `host: ${own}`, `x-nacre-token: ${TOKEN}`]
      socket.write([...lines, 'transfer-encoding: chunked', '', ''].join('\r\n'))
      await has('text/event-stream')
      socket.write('3\r\none\r\n')
      await has('data: one\n\n')
      socket.destroy()

      const web = new WebSocket(`ws://127.0.0.1:${serving.port}/chat`, ['own', `nacre.token.${TOKEN}`], {
        headers: { host: own, origin },
      })
      const [first] = (await once(web, 'message')) as [Buffer]
      const { url, headers } = JSON.parse(first.toString())
      expect([url, headers.host, headers.origin, headers['sec-websocket-protocol']]).toEqual([
        ...['/chat', own, origin, 'own'],
      ])
      web.send('ping')
      expect(String((await once(web, 'message'))[0])).toBe('ping')
      web.close()
      await once(web, 'close')
      // A page of another origin gets none, although its browser would send the cookie.
      for (const other of [host('blue'), `5173.red.localhost:${serving.port}`, `localhost:${serving.port}`]) {
        const refused = new WebSocket(`ws://127.0.0.1:${serving.port}/`, [`nacre.token.${TOKEN}`], {
          headers: { host: own, origin: `http://${other}` },
        })
        expect((await once(refused, 'unexpected-response'))[1].statusCode, other).toBe(403)
      }
    }))

  it('ends with its fork, and is a reason where nothing can take the request', () =>
    withForks(async ({ red, blue, sandbox, host, send }) => {
      await startProgram(red, PORT)
      expect(await send(host('blue'), '/')).toMatchObject({
        status: 502,
        json: { code: 'PORT_CLOSED', message: "no program of the fork 'blue' listens on port 3000" },
      })
      expect((await send(host('red'), '/')).status).toBe(200)
      // A fork of a fork is one, too, and so is a merged sandbox.
      const inner = await red.fork({ name: 'inner' })
      const { sandbox: merged } = await Sandbox.merge([red, blue], { name: 'both' })
      expect((await send(host('inner'), '/')).status).toBe(502)
      expect((await send(host('both'), '/')).status).toBe(502)
      await merged.destroy()
      await red.destroy()
      for (const name of ['red', 'both'])
        expect(await send(host(name), '/')).toMatchObject({ status: 404, json: { code: 'NOT_FOUND' } })
      expect((await send(host('inner'), '/')).status).toBe(502)
      await inner.destroy()
      // The next one of the name is another one.
      const next = await sandbox.fork({ name: 'red' })
      expect((await send(host('red'), '/')).status).toBe(502)
      await next.destroy()
    }))

  it('is never one of the machine: a fork without a network namespace has no hosts', () =>
    withForks(
      async ({ red, host, send, serving }) => {
        const foreign = createServer((socket) => socket.end('HTTP/1.1 200 OK\r\n\r\n')).listen(0)
        await once(foreign, 'listening')
        const { port } = foreign.address() as AddressInfo
        const own = await startProgram(red)
        for (const at of [port, own, serving.port])
          expect(await send(host('red').replace('3000', String(at)), '/')).toMatchObject({
            status: 403,
            json: { code: 'FORBIDDEN', message: expect.stringContaining("like the preset 'workspace'") },
          })
        // A session with rules of its own has one.
        const session = await red.createSession({ isolation: 'workspace' })
        await startProgram(session, PORT)
        expect((await send(host('red'), '/')).status).toBe(200)
        for (const at of [port, own, serving.port])
          expect((await send(host('red').replace('3000', String(at)), '/')).status).toBe(502)
        foreign.close()
      },
      { options: { isolation: undefined } },
    ))

  it('is none that the machine has, although the fork has a namespace', () =>
    withForks(async ({ red, host, send, serving }) => {
      const foreign = createServer((socket) => socket.end('HTTP/1.1 200 OK\r\n\r\n')).listen(0)
      await once(foreign, 'listening')
      const { port } = foreign.address() as AddressInfo
      await red.exec('true')
      for (const at of [port, serving.port])
        expect((await send(host('red').replace('3000', String(at)), '/')).status).toBe(502)
      foreign.close()
    }))
})

describe('a link to a port of a fork', () => {
  it('is opened once, and then a cookie of that host alone, which the program does not see', () =>
    withForks(async ({ red, blue, url, host, send, serving }) => {
      await startProgram(red, PORT)
      await startProgram(red, 3001)
      await startProgram(blue, PORT)
      const client = new SandboxClient({ url: `${url}/forks/red`, token: TOKEN })
      const link = await client.portUrl(PORT, { expiresIn: 60_000 })
      expect(link).toMatch(new RegExp(`^http://3000\\.red\\.localhost:${serving.port}/\\.nacre/[\\w.-]+/$`))
      const { pathname } = new URL(link)
      const none = { 'x-nacre-token': '' }
      const own = host('red')
      const opened = await send(own, `${pathname}page?x=1`, { headers: none })
      expect(opened).toMatchObject({
        status: 303,
        headers: {
          location: '/page?x=1',
          'referrer-policy': 'no-referrer',
          'clear-site-data': '"cache", "storage"',
        },
      })
      const [set = ''] = opened.headers['set-cookie'] ?? []
      expect(set).toMatch(/^nacre-link-[0-9a-f]{12}=[\w.-]+; Path=\/; Max-Age=60; HttpOnly; SameSite=Lax$/)
      const [cookie = ''] = set.split(';')
      const { status, json } = await send(own, '/page?x=1', {
        headers: { ...none, cookie: `a=1; ${cookie}; nacre-link-0123456789ab=other; b=2` },
      })
      expect([status, json.url, json.headers.cookie]).toEqual([200, '/page?x=1', 'a=1; b=2'])
      expect(JSON.stringify(json)).not.toContain(cookie.split('=')[1])
      // What the browser has is of this fork from now on.
      const again = await send(own, pathname, { headers: { ...none, cookie } })
      expect([again.status, again.headers['clear-site-data']]).toEqual([303, undefined])
      // Not for another port, another fork, or the server.
      for (const other of [`3001.red.localhost:${serving.port}`, host('blue')]) {
        expect((await send(other, '/', { headers: { ...none, cookie } })).status, other).toBe(401)
        expect((await send(other, pathname, { headers: none })).status, other).toBe(401)
      }
      for (const route of ['/v1/sessions', '/forks/red/v1/sessions', pathname])
        expect((await exchange(url, route, { headers: { cookie } })).status, route).toBe(401)
      // A page can set another cookie of the name, which takes nothing away.
      const shadowed = `${cookie.split('=')[0]}=bad; ${cookie}`
      expect((await send(own, '/', { headers: { ...none, cookie: shadowed } })).status).toBe(200)
      for (const bad of ['', 'x', `${cookie}x`, cookie.replace('=', '=0')])
        expect((await send(own, '/', { headers: { ...none, cookie: bad } })).status, bad).toBe(401)
      expect((await send(own, pathname, { method: 'POST', headers: none })).status).toBe(400)
      for (const [rest, ...wanted] of [
        ['/evil.example', 303, '/evil.example'],
        ['?x=1', 303, '/?x=1'],
        // Browsers send none.
        ['\\evil.example', 400, undefined],
      ]) {
        const { status, headers } = await send(own, `${pathname}${rest}`, { headers: none })
        expect([status, headers.location], String(rest)).toEqual(wanted)
      }
      expect(await rejectionOf(client.portUrl(PORT, { sessionId: 'default' }))).toMatchObject({
        message: expect.stringContaining('leads to the first session that listens'),
      })
      const short = new URL(await client.portUrl(PORT, { expiresIn: 1 }))
      await until(
        async () => (await send(own, short.pathname, { headers: none })).status === 401 || undefined,
        () => 'it does not expire',
      )
      await client.close()
    }))

  it('ends with the fork, also for the next fork of the name', () =>
    withForks(async ({ red, sandbox, url, host, send }) => {
      const client = new SandboxClient({ url: `${url}/forks/red`, token: TOKEN })
      const { pathname } = new URL(await client.portUrl(PORT))
      await client.close()
      await red.destroy()
      await using next = await sandbox.fork({ name: 'red' })
      await startProgram(next, PORT)
      expect((await send(host('red'), pathname, { headers: { 'x-nacre-token': '' } })).status).toBe(401)
    }))
})

describe('a hostile program of a fork', () => {
  it('gets no right, and sends the client nothing that reaches beyond its host', () =>
    withForks(async ({ red, host, send }) => {
      await startProgram(red, PORT)
      const own = host('red')
      const { json } = await send(own, '/', {
        headers: {
          authorization: `Bearer ${TOKEN}`,
          'x-own-token': `Token ${TOKEN}`,
          'x-nacre-hold': 'hold',
          'x-forwarded-for': '10.0.0.1',
          referer: 'http://localhost/v1/ports/3000~abc/',
          connection: 'close, x-hop',
          'x-hop': 'hop',
        },
      })
      expect(json.headers).toEqual({ host: own, connection: 'keep-alive' })
      for (const [to, location] of [
        ['/login?x#y', '/login?x#y'],
        ['http://localhost:3000/a?b#c', `http://${own}/a?b#c`],
        ['http://127.0.0.1:3000//evil.example', `http://${own}//evil.example`],
        ['http://localhost:3001/a', 'http://localhost:3001/a'],
        ['https://example.com/x', 'https://example.com/x'],
      ]) {
        const { status, headers } = await send(own, `/redirect?to=${encodeURIComponent(to ?? '')}`)
        expect([status, headers.location], to).toEqual([302, location])
      }
      const query = new URLSearchParams({
        'clear-site-data': '"*"',
        'alt-svc': 'h2=":1"',
        'x-nacre-instance': 'x',
      })
      for (const cookie of [
        'a=1; Path=/; Domain=localhost; HttpOnly',
        'b=2; domain = red.localhost',
        'nacre-link-0123456789ab=x',
        '=nacre-link-0123456789ab=x',
      ])
        query.append('set-cookie', cookie)
      const { headers } = await send(own, `/headers?${query}`)
      expect(headers['set-cookie']).toEqual(['a=1; Path=/; HttpOnly', 'b=2'])
      for (const name of ['clear-site-data', 'alt-svc', 'x-nacre-instance'])
        expect(headers[name], name).toBeUndefined()
      expect((await send(own, '/sw.js', { headers: { 'service-worker': 'script' } })).status).toBe(400)
      for (const dots of ['/../a', '/%2e%2e/a']) expect((await send(own, dots)).status, dots).toBe(400)
    }))

  it('has none of the routes of the server on its host, however that is written', () =>
    withForks(async ({ red, host, send, serving }) => {
      await startProgram(red, PORT)
      const own = host('red')
      for (const route of [
        '/v1/sessions',
        '/healthz',
        '/openapi.json',
        '/console',
        '/metrics',
        '/forks/red/v1/sessions',
        '/v1/forks',
      ]) {
        const { status, json } = await send(own, route)
        // That of the program, which replies with the request.
        expect([status, json.url], route).toEqual([200, route])
        for (const other of [
          'x.localhost',
          'red.localhost',
          `3000.none.localhost:${serving.port}`,
          '0.red.localhost',
          '03000.red.localhost',
          '65536.red.localhost',
          '3000.red.localhost.',
          `a.${own}`,
          '3000.red..localhost',
        ])
          expect((await send(other, route)).status, `${other}${route}`).toBe(404)
      }
      const request = (target: string, name: string) =>
        raw({ serving }, [
          `GET ${target} HTTP/1.1`,
          `host: ${name}`,
          `x-nacre-token: ${TOKEN}`,
          'connection: close',
          '',
          '',
        ])
      // The address of the first line counts as well, and neither leads to the routes.
      for (const [target, name] of [
        [`http://${own}/v1/sessions`, 'localhost'],
        ['http://localhost/v1/sessions', own],
        [`http://${own}/v1/sessions`, own],
      ] as const)
        expect(await request(target, name), `${target} ${name}`).toMatch(/^HTTP\/1\.1 4\d\d /)
    }))

  it('gets only whole requests', () =>
    withForks(async ({ red, host, serving }) => {
      await startProgram(red, PORT)
      const head = ['POST / HTTP/1.1', `host: ${host('red')}`, `x-nacre-token: ${TOKEN}`]
      const smuggled = 'GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n'
      for (const lines of [
        ['content-length: 5', 'transfer-encoding: chunked', '', `0\r\n\r\n${smuggled}`],
        ['transfer-encoding: gzip, chunked', '', `0\r\n\r\n${smuggled}`],
        ['content-length: 0', `content-length: ${smuggled.length}`, '', smuggled],
      ]) {
        const reply = await raw({ serving }, [...head, 'connection: close', ...lines])
        expect(reply, lines.join('|')).not.toContain('/smuggled')
        expect(reply).toMatch(/^HTTP\/1\.1 4\d\d /)
      }
    }))
})

describe('who may call', () => {
  it('a host needs the token or a link, before it says whether there is such a fork', () =>
    withForks(async ({ red, host, send }) => {
      await startProgram(red, PORT)
      const { json } = await send(host('red'), '/', { headers: { 'x-nacre-token': '' } })
      expect(json.message).toBe(
        'open the port from the console, by a link of portUrl, or with the token in X-Nacre-Token',
      )
      for (const name of ['red', 'none'])
        for (const wrong of ['', 'wrong'])
          expect((await send(host(name), '/', { headers: { 'x-nacre-token': wrong } })).status).toBe(401)
      const from = async (headers: OutgoingHttpHeaders) => (await send(host('red'), '/', { headers })).status
      const opens = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' }
      for (const site of ['cross-site', 'same-site']) {
        expect(await from({ 'sec-fetch-site': site, ...opens })).toBe(200)
        expect(await from({ 'sec-fetch-site': site, ...opens, 'sec-fetch-dest': 'iframe' })).toBe(403)
        expect(
          await from({ 'sec-fetch-site': site, 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'script' }),
        ).toBe(403)
      }
      expect(await from({ 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors' })).toBe(200)
      for (const origin of ['null', `http://${host('blue')}`, 'http://localhost', `https://evil.example`])
        expect(await from({ origin }), origin).toBe(403)
      expect(await from({ origin: `http://${host('red')}` })).toBe(200)
    }))

  it('without a token, only programs of this machine and pages of the host itself', () =>
    withForks(
      async ({ red, host, send, url }) => {
        await startProgram(red, PORT)
        const own = host('red')
        expect((await send(own, '/')).status).toBe(200)
        expect((await send(own, '/', { headers: { 'x-forwarded-for': '10.0.0.1' } })).status).toBe(403)
        const page = {
          'sec-fetch-site': 'cross-site',
          'sec-fetch-mode': 'no-cors',
          'sec-fetch-dest': 'image',
        }
        expect((await send(own, '/', { headers: page })).status).toBe(403)
        expect((await send('3000.red.evil.example', '/')).status).toBe(403)
        // Pages of forks reach no route of the server, also not by GET, for which browsers send no origin.
        for (const site of ['cross-site', 'same-site'])
          for (const route of ['/v1/sessions', '/v1/forks', '/forks/red/v1/sessions', '/metrics'])
            expect((await exchange(url, route, { headers: { 'sec-fetch-site': site } })).status, route).toBe(
              403,
            )
        expect(
          (await exchange(url, '/forks/red/v1/sessions', { headers: { 'sec-fetch-site': 'none' } })).status,
        ).toBe(200)
        const origin = `http://${own}`
        expect(
          (await exchange(url, '/forks/red/v1/exec', { method: 'POST', headers: { origin } })).status,
        ).toBe(403)
      },
      { serving: {} },
    ))
})

describe('the routes of a fork', () => {
  it('are all those of a server, for that fork alone', () =>
    withForks(async ({ red, blue, url, get, directory }) => {
      expect((await get('/v1/forks')).body).toEqual({ forks: [{ name: 'red' }, { name: 'blue' }] })
      await red.exec('own=red; echo red > a')
      writeFileSync(path.join(directory, 'real'), '')
      const client = new SandboxClient({ url: `${url}/forks/red`, token: TOKEN })
      expect((await client.exec('echo $own; cat a')).stdout).toBe('red\nred\n')
      expect((await client.workspace.changes()).map(({ path }) => path)).toEqual(['a'])
      expect(await blue.workspace.changes()).toEqual([])
      await client.files.write('large', new Uint8Array(3_000_000))
      expect((await red.files.stat('large'))?.size).toBe(3_000_000)
      const terminal = await client.startProcess('read -r x; echo "got $x"', { pty: true })
      await terminal.write('it\n')
      await terminal.waitForLog('got it')
      const lines: string[] = []
      for await (const event of client.execStream('echo streamed'))
        if (event.type === 'stdout') lines.push(event.data)
      expect(lines.join('')).toBe('streamed\n')
      expect(await client.portUrl(1)).toContain('1.red.localhost')
      await client.destroy()
      for (const [route, status] of [
        ['/forks/red/healthz', 200],
        ['/forks/none/v1/sessions', 404],
        ['/forks/red/forks/blue/v1/sessions', 404],
        ['/forks/red/v1/forks', 404],
        ['/forks/red/v1/ports/3000/', 404],
        ['/forks/../v1/sessions', 200],
        ['/forks/red', 404],
      ] as const)
        expect((await exchange(url, route, { headers: { 'x-nacre-token': TOKEN } })).status, route).toBe(
          status,
        )
      expect((await exchange(url, '/forks/red/v1/sessions')).status).toBe(401)
    }))

  it('end with the fork and with the server, and so does what runs in it', () =>
    withForks(async ({ red, blue, url, serving }) => {
      const program = await blue.startProcess('exec sleep 1000')
      const client = new SandboxClient({ url: `${url}/forks/red`, token: TOKEN })
      const running = rejectionOf(client.exec('sleep 1000'))
      await until(
        async () => (await (await red.getSession('default'))?.running())?.length === 1 || undefined,
        () => 'it does not run',
      )
      await red.destroy()
      expect(await running).toMatchObject({
        code: expect.stringMatching(/SANDBOX_DESTROYED|ABORT_ERR|SANDBOX_LOST/),
      })
      expect(await rejectionOf(client.listSessions())).toBeDefined()
      await client.close()
      await startProgram(blue, PORT)
      const socket = new WebSocket(`ws://127.0.0.1:${serving.port}/`, ['own', `nacre.token.${TOKEN}`], {
        headers: { host: `${PORT}.blue.localhost:${serving.port}` },
      })
      await once(socket, 'message')
      const end = once(socket, 'close')
      expect(await serving.close()).toBe(true)
      await end
      expect((await program.waitForExit()).signal).not.toBeNull()
    }))

  it('are not there by default, and need a sandbox of the process', () =>
    withForks(
      async ({ url, host, send, sandbox }) => {
        expect((await send(host('red'), '/')).status).toBe(404)
        expect((await send(host('red'), '/v1/forks')).status).toBe(404)
        const client = new SandboxClient({ url, token: TOKEN })
        expect(await rejectionOf(serve(client, { port: 0, forks: true }))).toMatchObject({
          code: 'INVALID_OPTION',
          message: 'forks needs a Sandbox of this process, not a client',
        })
        await client.close()
        expect(sandbox.name).toBeNull()
      },
      { serving: { token: TOKEN, forks: false } },
    ))
})

/** For what is in the log of accesses. */
it('a log line has no link and no path of a program', () => {
  const lines: string[] = []
  const logger = { debug() {}, info: (line: string) => void lines.push(line), warn() {}, error() {} }
  return withForks(
    async ({ red, url, host, send }) => {
      await startProgram(red, PORT)
      const client = new SandboxClient({ url: `${url}/forks/red`, token: TOKEN })
      const { pathname } = new URL(await client.portUrl(PORT))
      await client.close()
      await send(host('red'), `${pathname}secret`, { headers: { 'x-nacre-token': '' } })
      await send(host('red'), '/secret')
      const own = lines.filter((line) => line.includes('localhost'))
      expect(own.map((line) => line.replace(/\d+ ms$/, ''))).toEqual([
        `GET ${host('red')}/... 303 `,
        `GET ${host('red')}/... 200 `,
      ])
    },
    { serving: { token: TOKEN, logger } },
  )
})
