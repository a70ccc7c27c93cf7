import { writeFileSync } from 'node:fs'
import { request as send } from 'node:http'
import path from 'node:path'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { describe, expect, it } from 'vitest'
import { until } from '../../../__test__/helpers/until.js'
import { IdleLimit } from '../lib/idle.js'
import { callsOf, ERAS, overHttp, start, withBase } from './places.js'

describe.each(ERAS)('a client of %s over HTTP', (era) => {
  it('opens a session, whose handle all other calls need', () =>
    overHttp(async ({ connect, directory }) => {
      const { client, call } = await connect(era)
      const { tools } = await client.listTools()
      expect(tools).toHaveLength(8)
      expect(countTokens(JSON.stringify({ tools }))).toBeLessThanOrEqual(1600)
      const opened = await call('sessions', { open: 'a' })
      const session = opened.data.session as string
      expect(opened.text).toBe(`[session ${session} | cwd ${directory}]`)
      expect(session).toMatch(/^s-[\w-]{22}$/)
      await call('bash', { command: 'x=5', session })
      expect((await call('bash', { command: 'echo $x', session })).text).toMatch(/\n5$/)
      expect((await call('bash', { command: 'true' })).text).toContain('"session" is missing')
      expect((await call('bash', { command: 'true', session: 's-0123456789012345678901' })).text).toContain(
        'There is no such session',
      )
    }))

  it('sees nothing of another client', () =>
    overHttp(async ({ connect }) => {
      const [one, other] = [await connect(era), await connect(era)]
      const [a, b] = [await one.call('sessions', { open: 'a' }), await other.call('sessions', { open: 'a' })]
      await one.call('bash', { command: 'sleep 600', yield_after: 0, session: a.data.session })
      const { text } = await other.call('sessions', { session: b.data.session })
      expect(text).toBe('[sessions: 1]\na')
      expect((await other.call('kill', { id: 'r1', session: b.data.session })).text).toContain('no run "r1"')
    }))

  it('gets progress', () =>
    overHttp(async ({ connect, directory }) => {
      const { call } = await connect(era)
      const { data } = await call('sessions', { open: 'a' })
      const seen: number[] = []
      const onprogress = ({ progress }: { progress: number }) => {
        seen.push(progress)
        writeFileSync(path.join(directory, 'go'), '')
      }
      const command = 'until [ -e go ]; do sleep 0.05; done'
      await call('bash', { command, session: data.session }, { onprogress })
      expect(seen[0]).toBe(1)
    }))
})

it('a client of the SDK before 2.0 works over HTTP', () =>
  overHttp(async ({ url, token }) => {
    const client = new OldClient({ name: 'old', version: '1' })
    const headers = { authorization: `Bearer ${token}` }
    await client.connect(new OldTransport(new URL(url), { requestInit: { headers } }))
    const { data } = await callsOf(client)('sessions', { open: 'a' })
    const { text } = await callsOf(client)('bash', { command: 'echo there', session: data.session })
    expect(text).toContain('\nthere')
    await client.close()
  }))

/** Sends a request with any headers, also such as fetch does not send. */
function answer(
  url: string,
  headers: Record<string, string>,
  body: string,
  method = 'POST',
): Promise<[number, string]> {
  return new Promise((resolve, reject) => {
    const request = send(url, { method, headers }, (response) => {
      let text = ''
      response.on('data', (data) => {
        text += data
      })
      response.on('end', () => resolve([response.statusCode ?? 0, text]))
    })
    request.on('error', reject).end(body)
  })
}

const INITIALIZE = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
})

it('only requests with the token, to a name of the server and from allowed pages are served', () =>
  overHttp(
    async ({ url, token }) => {
      const { port } = new URL(url)
      const good = {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      }
      const expected: [Record<string, string>, number][] = [
        [{}, 200],
        [{ host: `localhost:${port}` }, 200],
        [{ origin: 'https://allowed.example' }, 200],
        [{ authorization: '' }, 401],
        [{ authorization: `Bearer ${token}x` }, 401],
        [{ authorization: token }, 401],
        [{ host: `rebound.example:${port}` }, 403],
        [{ host: `127.0.0.1.rebound.example:${port}` }, 403],
        [{ origin: 'https://other.example' }, 403],
        [{ origin: `http://127.0.0.1:${port}` }, 403],
        [{ origin: 'null' }, 403],
        [{ 'mcp-session-id': 'unknown' }, 404],
        [{ 'content-type': 'text/plain' }, 415],
      ]
      for (const [headers, status] of expected) {
        const [given, text] = await answer(url, { ...good, ...headers }, INITIALIZE)
        expect([headers, given]).toEqual([headers, status])
        if (status !== 200) expect(JSON.parse(text).error.message).not.toContain(token)
      }
      expect((await answer(url, good, '{'))[0]).toBe(400)
      const large = JSON.stringify('x'.repeat(5_000_000))
      for (let count = 0; count < 10; count++) {
        expect((await answer(url, good, large))[0]).toBe(413)
        expect((await answer(url, {}, large))[0]).toBe(401)
      }
      const chunked = { ...good, 'transfer-encoding': 'chunked' }
      expect((await answer(url, chunked, large))[0]).toBe(413)
      for (const upgrade of ['h2c', 'websocket']) {
        const offer = { ...good, connection: 'upgrade', upgrade }
        expect((await answer(url, offer, INITIALIZE))[0]).toBe(200)
        expect((await answer(url, { ...offer, authorization: '' }, INITIALIZE))[0]).toBe(401)
        expect((await answer(url, { ...offer, host: 'rebound.example' }, INITIALIZE))[0]).toBe(403)
      }
      expect((await answer(url.replace('/mcp', '/'), good, INITIALIZE))[0]).toBe(404)
      expect((await answer(url, good, '', 'GET'))[0]).toBe(400)
    },
    ['--allow-origin', 'https://allowed.example'],
  ))

it('a page of an allowed origin can ask what it may send, and reads the replies', () =>
  overHttp(
    async ({ url, token }) => {
      const page = { origin: 'https://allowed.example' }
      const asking = { ...page, 'access-control-request-method': 'POST' }
      const allowed = await fetch(url, { method: 'OPTIONS', headers: asking })
      expect([allowed.status, await allowed.text()]).toEqual([204, ''])
      expect(allowed.headers.get('access-control-allow-origin')).toBe(page.origin)
      for (const header of ['authorization', 'mcp-session-id', 'mcp-protocol-version'])
        expect(allowed.headers.get('access-control-allow-headers')).toContain(header)
      const sent = {
        ...{ ...page, authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        accept: 'application/json, text/event-stream',
      }
      const reply = await fetch(url, { method: 'POST', headers: sent, body: INITIALIZE })
      expect(reply.headers.get('access-control-allow-origin')).toBe(page.origin)
      expect(reply.headers.get('access-control-expose-headers')).toContain('mcp-session-id')
      expect(await reply.text()).toContain('"serverInfo"')
      const wrong = await fetch(url, { method: 'POST', headers: { ...sent, authorization: 'Bearer no' } })
      expect([wrong.status, wrong.headers.get('access-control-allow-origin')]).toEqual([401, page.origin])
      for (const origin of ['https://other.example', 'null']) {
        const other = await fetch(url, { method: 'OPTIONS', headers: { ...asking, origin } })
        expect([other.status, other.headers.get('access-control-allow-origin')]).toEqual([403, null])
      }
      expect((await fetch(url, { method: 'OPTIONS' })).status).toBe(401)
    },
    ['--allow-origin', 'https://allowed.example'],
  ))

it('the token of a file is used and never shown, and commands cannot read it', () =>
  withBase(async (base) => {
    const file = path.join(base.directory, 'token')
    const token = 'a-token-of-a-file-0123'
    writeFileSync(file, `${token}\n`)
    const server = start(base, ['--port', '0', '--token-file', file])
    const url = await server.printed(/listens on (\S+)/)
    const headers = { authorization: `Bearer ${token}` }
    const client = new OldClient({ name: 'old', version: '1' })
    await client.connect(new OldTransport(new URL(url), { requestInit: { headers } }))
    const call = callsOf(client)
    const { data } = await call('sessions', { open: 'a' })
    const read = await call('bash', { command: `grep -q token ${file}`, session: data.session })
    expect(read.data.exitCode).toBeGreaterThan(0)
    await client.close()
    server.child.kill('SIGTERM')
    expect(await server.ended).toBe(0)
    expect(server.stderr()).not.toContain(token)
  }))

it('a port that is taken is an error with a remedy', () =>
  overHttp(async ({ url, ...base }) => {
    const { port } = new URL(url)
    const server = start(base, ['--port', port])
    expect(await server.ended).toBe(1)
    expect(server.stderr()).toMatch(/--port \d+ cannot be used on 127\.0\.0\.1: .*; choose another --port/)
  }))

describe('a limit of idle time', () => {
  it('ends what is not used, and not what was removed', async () => {
    const ended: string[] = []
    const limit = new IdleLimit(5)
    limit.add('a', () => ended.push('a'))
    limit.remove('a')
    limit.add('b', () => ended.push('b'))
    limit.use('b')
    await until(
      () => (ended.length > 0 ? true : undefined),
      () => 'nothing ends',
    )
    expect(ended).toEqual(['b'])
  })
})
