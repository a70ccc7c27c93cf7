/** Requests that are wrong, too much, too slow or not allowed. */
import { readdirSync } from 'node:fs'
import { connect } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { createServer, type Server, serve } from '@nacre/server'
import { OptionError, Sandbox } from 'nacre'
import { SandboxClient } from 'nacre/client'
import { describe, expect, it } from 'vitest'
import { type Body, requestsTo, withServer } from '../helpers/http.js'
import { withSandbox } from '../helpers/invariants.js'
import { rejectionOf } from '../helpers/thrown.js'

/** Sends bytes, one piece after the other, and gives what came back when the server has closed the connection. */
function raw(port: number, pieces: string[], pauseMs = 0): Promise<string> {
  return new Promise((resolve) => {
    let text = ''
    const socket = connect(port, '127.0.0.1', () => {
      const rest = [...pieces]
      const send = () => {
        const piece = rest.shift()
        if (piece === undefined || socket.destroyed) return
        socket.write(piece)
        setTimeout(send, pauseMs)
      }
      send()
    })
    socket.on('data', (data) => {
      text += data
    })
    // A server that has closed may answer what is still sent with a reset.
    socket.on('error', () => {})
    socket.on('close', () => resolve(text))
  })
}

const token = 'a-token-for-tests'

describe('bodies', () => {
  it('that are no JSON or too large are refused, and nothing runs', () =>
    withServer(
      async ({ url, post, sandbox }) => {
        const send = async (body: string, type = 'application/json') => {
          const response = await fetch(`${url}/v1/exec`, {
            method: 'POST',
            headers: { 'content-type': type },
            body,
          })
          return { status: response.status, body: (await response.json()) as Body }
        }
        const invalid = { status: 400, body: { code: 'INVALID_OPTION', httpStatus: 400 } }
        for (const body of ['{', '', 'null', '[]', '"x"', '{"command":"touch ran","timeOut":1}'])
          expect(await send(body)).toMatchObject(invalid)
        const missing = {
          ...invalid.body,
          message: expect.stringMatching(/^command: is missing; .*\["ls", "-l"\]/),
        }
        expect((await send('{}')).body).toMatchObject(missing)
        const misspelt = await send('{"command":"touch ran","timeoutMs":1}')
        expect(misspelt.body.message).toMatch(
          /^the body: no option "timeoutMs"; did you mean "timeout"\? It has: command, /,
        )
        const nested = await post('/v1/sessions', { isolation: { netwrk: 'none' } })
        expect(nested.body.message).toMatch(/^isolation: no option "netwrk"; did you mean "network"\? /)
        const large = { status: 413, body: { code: 'PAYLOAD_TOO_LARGE' } }
        expect(await post('/v1/exec', { command: `touch ran #${'x'.repeat(2000)}` })).toMatchObject(large)
        expect(await post('/v1/nothing')).toMatchObject({ status: 404, body: { code: 'NOT_FOUND' } })
        expect((await sandbox.exec('ls')).stdout).toBe('')
      },
      { maxBodyBytes: 1000 },
    ))

  it('of no declared length are read up to their limit, whatever listens', () =>
    withSandbox(async ({ sandbox }) => {
      const { fetch } = createServer(sandbox, { authenticated: true, maxBodyBytes: 1000 })
      let read = 0
      const send = (pieces: number) => {
        read = 0
        const body = new ReadableStream(
          {
            pull(controller) {
              const text = read === 0 ? '{"command":"echo ' : read < pieces ? 'x'.repeat(100) : '"}'
              controller.enqueue(new TextEncoder().encode(text))
              if (read++ === pieces) controller.close()
            },
          },
          { highWaterMark: 0 },
        )
        const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body, duplex: 'half' }
        return fetch(new Request('http://localhost/v1/exec', init as RequestInit))
      }
      const small = (await (await send(5)).json()) as Body
      expect(small.result.stdout).toBe(`${'x'.repeat(400)}\n`)
      const large = await send(1e6)
      expect([large.status, ((await large.json()) as Body).code]).toEqual([413, 'PAYLOAD_TOO_LARGE'])
      expect(read).toBeLessThan(20)
    }))

  it('refuses a body that is not declared as JSON with 415, and names the type to send', () =>
    withServer(async ({ url, sandbox }) => {
      const send = (path: string, headers: Record<string, string>, body: string | Uint8Array) =>
        fetch(url + path, { method: 'POST', headers, body })
      const body = '{"command":"echo x >> ran"}'
      const types = ['text/plain', 'application/x-www-form-urlencoded', 'application/jsonp', 'json', '']
      for (const path of ['/v1/exec', '/api/execute']) {
        for (const type of types) {
          const response = await send(path, { 'content-type': type }, body)
          expect([type, response.status]).toEqual([type, 415])
          expect(response.headers.get('accept-post')).toBe('application/json')
          const { code, message, httpStatus } = (await response.json()) as Body
          expect([code, httpStatus]).toEqual(['UNSUPPORTED_MEDIA_TYPE', 415])
          expect(message).toContain('`Content-Type: application/json`')
        }
        // A body of bytes has no type at all by default.
        expect((await send(path, {}, new TextEncoder().encode(body))).status).toBe(415)
        for (const type of ['application/json; charset=utf-8', 'Application/JSON', 'application/vnd.x+json'])
          expect((await send(path, { 'content-type': type }, body)).status).toBe(200)
      }
      expect((await sandbox.exec('cat ran')).stdout).toBe('x\n'.repeat(6))
      // Routes without a body do not read one, whatever it is.
      expect((await send('/v1/processes/cleanup', { 'content-type': 'text/plain' }, 'x')).status).toBe(200)
    }))

  it('that are sent in chunks are bounded as well', () =>
    withServer(
      async ({ serving }) => {
        const head =
          'POST /v1/exec HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n'
        const chunked = (body: string) => [
          `${head}Transfer-Encoding: chunked\r\n\r\n`,
          `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
        ]
        expect(await raw(serving.port, chunked('{"command":"echo chunked"}'))).toContain('chunked\\n')
        expect(await raw(serving.port, chunked(`{"command":"echo ${'x'.repeat(2000)}"}`))).toMatch(
          /^HTTP\/1.1 413/,
        )
      },
      { maxBodyBytes: 1000 },
    ))
})

describe('headers', () => {
  it('of a megabyte are answered with 431', () =>
    withServer(async ({ url, get }) => {
      const answer = await fetch(`${url}/healthz`, { headers: { x: 'a'.repeat(1024 * 1024) } }).then(
        ({ status }) => status,
        () => 'cut',
      )
      expect([431, 'cut']).toContain(answer)
      expect((await get('/healthz')).body).toEqual({ status: 'ok' })
    }))

  it('that never end, and requests of which half comes, do not hold a connection', () =>
    withServer(
      async ({ serving, post }) => {
        const dribble = Array.from({ length: 1000 }, () => 'x')
        const half = 'POST /v1/exec HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000\r\n\r\n{"comm'
        await Promise.all([
          raw(serving.port, ['GET /healthz HTTP/1.1\r\nX-Slow: ', ...dribble], 250),
          raw(serving.port, [half, ...dribble], 250),
        ])
        // What takes long to answer is another matter.
        expect((await post('/v1/exec', { command: 'sleep 1.5; echo x' })).body.result.stdout).toBe('x\n')
      },
      { headersTimeout: 500, requestTimeout: 1000 },
    ))
})

describe('callers', () => {
  it('without the token are turned away, but for the question whether the server is well', () =>
    withServer(
      async ({ url, get }) => {
        const stranger = requestsTo(url)
        for (const path of ['/v1/sessions', '/api/session/list', '/metrics', '/openapi.json', '/nothing'])
          expect(await stranger.get(path)).toMatchObject({ status: 401, body: { code: 'UNAUTHORIZED' } })
        expect((await requestsTo(url, `${token}x`).get('/v1/sessions')).status).toBe(401)
        expect((await stranger.get('/healthz')).status).toBe(200)
        expect((await get('/v1/sessions')).status).toBe(200)
        const wrong = new SandboxClient({ url, token: 'another-token-of-mine' })
        expect(await rejectionOf(wrong.exec('true'))).toMatchObject({ code: 'REQUEST_REFUSED' })
        const right = new SandboxClient({ url, token })
        expect((await right.exec('echo x')).stdout).toBe('x\n')
        await right.destroy()
      },
      { token },
    ))

  it('of pages of another site are turned away, with any name for this machine', () => {
    const warnings: string[] = []
    return withServer(
      async ({ call, get, url, serving }) => {
        const from = (origin: string) => call('POST', '/api/process/cleanup', undefined, { origin })
        const evil = await from('https://evil.example')
        expect(evil).toMatchObject({ status: 403, body: { code: 'FORBIDDEN' } })
        expect(evil.body.message).toContain('--allow-origin "https://evil.example"')
        expect((await from('null')).body.message).toContain('serve the page over HTTP')
        // The browser sends only a preflight, and the log must have its reason.
        warnings.length = 0
        const refused = await fetch(`${url}/v1/exec`, {
          method: 'OPTIONS',
          headers: { origin: 'https://other.example', 'access-control-request-method': 'POST' },
        })
        expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([403, null])
        expect(warnings).toEqual([expect.stringContaining('--allow-origin "https://other.example"')])
        expect((await from('https://good.example')).status).toBe(200)
        const preflight = await fetch(`${url}/v1/exec`, {
          method: 'OPTIONS',
          headers: { origin: 'https://good.example', 'access-control-request-method': 'POST' },
        })
        expect(preflight.headers.get('access-control-allow-origin')).toBe('https://good.example')
        // The client reads parts of files by them.
        const { headers } = await fetch(`${url}/healthz`, { headers: { origin: 'https://good.example' } })
        const exposed = headers.get('access-control-expose-headers')?.toLowerCase().split(',')
        expect(exposed).toEqual(expect.arrayContaining(['etag', 'content-range']))
        const rebound = `GET /v1/sessions HTTP/1.1\r\nHost: evil.example:${serving.port}\r\nConnection: close\r\n\r\n`
        expect(await raw(serving.port, [rebound])).toMatch(/^HTTP\/1.1 403/)
        expect((await get('/v1/sessions')).status).toBe(200)
      },
      {
        allowedOrigins: ['https://good.example'],
        logger: { debug() {}, info() {}, error() {}, warn: (line) => warnings.push(line) },
      },
    )
  })

  it('of HTTP/1.0 without a Host, as health checks of proxies send them, are answered', () =>
    withServer(async ({ serving }) => {
      for (const [line, status] of [
        ['OPTIONS / HTTP/1.0', 404],
        ['GET /healthz HTTP/1.0', 200],
        ['HEAD /healthz HTTP/1.0', 200],
        ['GET /v1/sessions HTTP/1.0', 200],
      ])
        expect(await raw(serving.port, [`${line}\r\n\r\n`])).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
    }))

  it('with many faults get a short refusal that names the first ten', () =>
    withServer(async ({ url }) => {
      // As text: to make such objects takes longer than to refuse them.
      const post = async (path: string, body: string) => {
        const headers = { 'content-type': 'application/json' }
        const response = await fetch(url + path, { method: 'POST', headers, body })
        return { status: response.status, body: (await response.json()) as Body }
      }
      const list = (item: (index: number) => string) =>
        Array.from({ length: 300_000 }, (_, index) => item(index))
      const many = (name: string) => list((index) => `"${name}${index}":1`).join()
      const words = `[${list(() => '1').join()}]`
      const variables = await post('/v1/exec', `{"command":"true","env":{${many('A')}}}`)
      expect(variables.body.context.issues).toEqual(
        Array.from({ length: 10 }, (_, index) => ({
          path: `env.A${index}`,
          message: 'must be a string, or null to unset the variable',
        })),
      )
      const keys = await post('/v1/exec', `{"command":"true",${many('odd')}}`)
      expect(keys.body.message).toContain('no option "odd9"')
      expect(keys.body.message).not.toContain('no option "odd10"')
      const others = [
        `{"command":${words}}`,
        `{"command":"true","env":{"${'x'.repeat(1_000_000)}":1}}`,
        `{"command":"true","env":${words}}`,
      ]
      const replies = [variables, keys, ...(await Promise.all(others.map((body) => post('/v1/exec', body))))]
      const lists = `{"isolation":{"filesystem":{"write":${words}}}}`
      for (const { status, body } of [...replies, await post('/v1/sessions', lists)]) {
        expect([status, body.code]).toEqual([400, 'INVALID_OPTION'])
        expect(JSON.stringify(body).length).toBeLessThan(10_000)
      }
    }))

  it('whose percent-encoding is not UTF-8 are refused, and name no other file', () =>
    withServer(async ({ call, directory }) => {
      for (const query of ['path=a%FF', 'path=a%ZZ', '%FF=a', 'path=a&x=%']) {
        const { status, body } = await call('POST', `/v1/sessions/default/files/mkdir?${query}`, {
          path: 'a',
        })
        expect([status, body.code]).toEqual([400, 'VALIDATION_FAILED'])
        expect(body.message).toContain('pathBase64')
      }
      expect((await call('GET', '/v1/sessions/%FF')).body.code).toBe('VALIDATION_FAILED')
      expect(readdirSync(directory)).toEqual([])
      expect((await call('GET', '/v1/sessions/default/files/stat?path=%25FF')).body).toEqual({ file: null })
    }))

  it('are bounded in number', () =>
    withServer(
      async ({ post, stream, get }) => {
        await post('/api/process/start', { command: 'sleep 60', processId: 'one' })
        const replies = [1, 2].map(() => stream('GET', '/api/process/one/stream'))
        const events = replies.map((reply) => reply[Symbol.asyncIterator]())
        for (const one of events) await one.next()
        expect(await get('/v1/sessions')).toMatchObject({ status: 503, body: { code: 'OVERLOADED' } })
        // A probe must not take a busy server for a dead one.
        expect((await get('/healthz')).status).toBe(200)
        await post('/api/process/cleanup')
        for (const one of replies) one.vanish()
        for (const one of events) await one.next().catch(() => {})
      },
      { maxRequests: 2 },
    ))
})

describe('serve', () => {
  it('does not start where others can reach it without a token, or with options that it cannot use', () =>
    withSandbox(async ({ sandbox }) => {
      for (const host of ['0.0.0.0', '::', '192.0.2.1', 'example.com'])
        await expect(serve(sandbox, { host, port: 0 })).rejects.toThrow(/token/)
      const cases: Array<[object, string]> = [
        [{ token: 'short' }, 'token'],
        [{ tokenFile: '/proc/does/not/exist' }, 'tokenFile'],
        [{ token, tokenFile: '/x' }, 'tokenFile'],
        [{ port: 70_000 }, 'port'],
        [{ allowedOrigins: '*' }, 'allowedOrigins'],
        [{ maxRequest: 1 }, 'maxRequest'],
      ]
      for (const [options, name] of cases) {
        const error = await rejectionOf(serve(sandbox, options))
        expect(error).toBeInstanceOf(TypeError)
        expect(error.message).toContain(name)
      }
      expect(() => createServer(sandbox, { token: 'short' })).toThrow(OptionError)
      const alike = { exec() {}, execStream() {}, startProcess() {}, createSession() {}, listProcesses() {} }
      const wrapped = [alike, new Proxy(sandbox, {}), Object.create(sandbox)]
      const refused = expect.objectContaining({
        name: 'OptionError',
        code: 'INVALID_OPTION',
        message: expect.stringMatching(/^sandbox must be a Sandbox or a SandboxClient .*, not /),
      })
      for (const wrong of [5, null, {}, [], 'sandbox', ...wrapped]) {
        expect(() => createServer(wrong as never)).toThrow(refused)
        await expect(serve(wrong as never)).rejects.toThrow(refused)
      }
      class Guarded extends Sandbox {
        override async exec(): Promise<never> {
          throw new Error('guarded')
        }
      }
      await using guarded = new Guarded()
      await using patched = Object.assign(new Sandbox(), { startProcess: guarded.exec })
      for (const [replaced, name] of [
        [guarded, 'exec'],
        [patched, 'startProcess'],
      ] as const)
        expect(() => createServer(replaced as Sandbox)).toThrow(
          `with its own ${name}(), not with another one`,
        )
      const outside = await serve(sandbox, { host: '0.0.0.0', port: 0, token })
      expect((await requestsTo(`http://127.0.0.1:${outside.port}`, token).get('/v1/sessions')).status).toBe(
        200,
      )
      await outside.close()
    }))

  it('names the header or the query that is wrong, and does not call it a failure of its own', () => {
    const errors: string[] = []
    const logger = { debug() {}, info() {}, warn() {}, error: (message: string) => errors.push(message) }
    return withServer(
      async ({ sandbox, call, get, url }) => {
        await sandbox.startProcess('sleep 60', { processId: 'p' })
        for (const id of ['abc', '-1', '1.5', '6, 7'])
          for (const path of ['/v1/processes/p/output', '/api/process/p/stream']) {
            const { status, body } = await call('GET', path, undefined, { 'last-event-id': id })
            expect([status, body.code]).toEqual([400, 'VALIDATION_FAILED'])
            expect(body.message).toContain('Last-Event-ID')
          }
        expect((await get('/v1/processes?foo=1')).body.message).toMatch(/^the query: .*"foo"/)
        const headers = { 'content-type': 'application/json' }
        const broken = await fetch(`${url}/v1/exec`, { method: 'POST', headers, body: '{' })
        expect(broken.status).toBe(400)
        expect(errors).toEqual([])
      },
      { logger },
    )
  })

  it('does not leave a command waiting for input that it refuses', () =>
    withServer(
      async ({ url, sandbox }) => {
        const client = new SandboxClient({ url })
        async function* large() {
          yield 'a'.repeat(80_000)
        }
        const error = await rejectionOf(client.exec('wc -c', { input: large() }))
        expect(error).toMatchObject({ code: 'REQUEST_REFUSED' })
        expect((await sandbox.exec('echo free', { timeout: 10_000 })).stdout).toBe('free\n')
        await client.destroy()
      },
      { maxBodyBytes: 100_000 },
    ))

  it('rejects requests without a token whose caller is unknown or behind a proxy', () =>
    withSandbox(async ({ sandbox }) => {
      const status = async (server: Server, headers: Record<string, string>, env?: unknown) => {
        // Every request of a network has a turn of the event loop of its own.
        await setImmediate()
        const response = await server.fetch(new Request('http://localhost/v1/sessions', { headers }), env)
        return [response.status, ((await response.json()) as { message?: string }).message]
      }
      const local = { incoming: { socket: { remoteAddress: '127.0.0.1' } } }
      const open = createServer(sandbox)
      expect(await status(open, { host: 'localhost' })).toEqual([403, expect.stringContaining('token')])
      expect(await status(open, {}, {})).toEqual([403, expect.stringContaining('authenticated')])
      expect(await status(open, {}, local)).toEqual([200, undefined])
      const forwarded = ['For', 'Host', 'Proto', 'Port', 'Server'].map((name) => `X-Forwarded-${name}`)
      for (const name of ['Forwarded', 'Via', 'X-Real-IP', ...forwarded])
        expect(await status(open, { [name]: '127.0.0.1' }, local)).toEqual([
          403,
          expect.stringContaining('proxy'),
        ])
      const token = 'a-token-for-the-tests'
      const authorization = `Bearer ${token}`
      expect(await status(createServer(sandbox, { token }), { authorization, via: '1.1 p' })).toEqual([
        200,
        undefined,
      ])
      const trusting = createServer(sandbox, { authenticated: true })
      expect(await status(trusting, { host: 'example.com', via: '1.1 p' })).toEqual([200, undefined])
      expect(() => createServer(sandbox, { token, authenticated: true })).toThrow('exclude each other')
    }))

  it('keeps details of this machine out of error messages', () =>
    withSandbox(
      async ({ sandbox, stateDir }) => {
        const told: string[] = []
        const log = (message: string) => told.push(message)
        const server = createServer(sandbox, {
          authenticated: true,
          logger: { debug: log, info: log, warn: log, error: log },
        })
        await sandbox.destroy()
        for (const path of ['/api/session/list', '/v1/sessions']) {
          const response = await server.fetch(new Request(`http://localhost${path}`))
          expect(response.status).toBeGreaterThanOrEqual(500)
          const text = await response.text()
          for (const secret of [stateDir, __dirname, '    at ']) expect(text).not.toContain(secret)
        }
      },
      { destroys: true },
    ))
})
