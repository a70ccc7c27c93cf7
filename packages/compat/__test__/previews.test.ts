/** Servers of sandboxes, by names below localhost. */
import { once } from 'node:events'
import http from 'node:http'
import net from 'node:net'
import type { Sandbox } from 'e2b'
import { expect, it } from 'vitest'
import { holds, until } from '../../../__test__/helpers/until.js'
import { request, withSandbox } from './place.js'

/** Starts a server in the sandbox which replies with the first line of a request and its Host. */
async function startServer({ commands, files }: Sandbox): Promise<number> {
  await files.write('server.cjs', PROGRAM)
  const handle = await commands.run('exec node server.cjs', { background: true })
  const printed = await until(
    () => /^\d+/.exec(handle.stdout)?.[0],
    () => handle.stderr,
  )
  return Number(printed)
}

const PROGRAM = `
const server = require('node:http').createServer((request, response) => {
  if (request.url === '/trailer')
    return request.socket.end('HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\ntrailer: x\\r\\n\\r\\nok')
  if (request.url === '/101')
    return request.socket.write('HTTP/1.1 101 Switching Protocols\\r\\nconnection: upgrade\\r\\nupgrade: own\\r\\n\\r\\n')
  if (request.url === '/bare-101') return request.socket.write('HTTP/1.1 101 Switching Protocols\\r\\n\\r\\n')
  if (request.url === '/never') return
  if (request.url.startsWith('/to?')) {
    response.writeHead(302, { location: decodeURIComponent(request.url.slice(4)).replace('PORT', server.address().port) })
    return response.end()
  }
  if (request.url === '/page') return response.end([request.headers.origin, request.headers.referer].join(' '))
  let body = ''
  request.on('data', (data) => { body += data })
  request.on('end', () => response.end([request.method, request.url, request.headers.host, body].join(' ')))
})
server.on('upgrade', (request, socket) => {
  socket.write('HTTP/1.1 101 Switching Protocols\\r\\nconnection: upgrade\\r\\nupgrade: own\\r\\nhost: ' + request.headers.host + '\\r\\n\\r\\n')
  socket.pipe(socket)
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
`

it('pass requests and connections on', () =>
  withSandbox(async (sandbox, { server }) => {
    const port = await startServer(sandbox)
    const host = sandbox.getHost(port)
    expect(host).toBe(`${port}-${sandbox.sandboxId}.localhost:${new URL(server.url).port}`)
    const headers = { host }
    const { status, text } = await request(`${server.url}/a?b`, { method: 'POST', headers, body: 'body' })
    expect([status, text]).toEqual([200, `POST /a?b localhost:${port} body`])
    const socket = net.connect(Number(new URL(server.url).port), '127.0.0.1')
    try {
      socket.write(`GET / HTTP/1.1\r\nhost: ${host}\r\nconnection: upgrade\r\nupgrade: own\r\n\r\n`)
      let received = ''
      socket.on('data', (data) => {
        received += data
      })
      await until(
        () => received.includes('\r\n\r\n') || undefined,
        () => received,
      )
      expect(received).toContain('101 Switching Protocols')
      expect(received).toContain(`host: localhost:${port}\r\n`)
      socket.write('echoed')
      await until(
        () => received.endsWith('echoed') || undefined,
        () => received,
      )
      const closed = once(socket, 'close')
      await sandbox.kill()
      await closed
    } finally {
      socket.destroy()
    }
    expect((await request(server.url, { headers })).status).toBe(502)
  }))

it('keep redirects and the origin of pages where the client is', () =>
  withSandbox(async (sandbox, { server }) => {
    const port = await startServer(sandbox)
    const host = sandbox.getHost(port)
    const locationOf = async (location: string) => {
      const target = `${server.url}/to?${encodeURIComponent(location)}`
      const sent = http.get(target, { headers: { host }, agent: false })
      const [reply] = (await once(sent, 'response')) as [http.IncomingMessage]
      reply.resume()
      return reply.headers.location
    }
    for (const own of ['http://localhost:PORT', 'http://127.0.0.1:PORT', 'https://localhost:PORT'])
      expect(await locationOf(`${own}/a?b#c`), own).toBe('/a?b#c')
    expect(await locationOf('http://localhost:PORT//evil.test/a')).toBe('/evil.test/a')
    for (const other of ['/a', 'a/', 'https://example.test/a', 'http://localhost:1/a', 'mailto:a@localhost'])
      expect(await locationOf(other), other).toBe(other)
    const page = async (origin: string, referer: string) =>
      (await request(`${server.url}/page`, { headers: { host, origin, referer } })).text
    const own = `http://localhost:${port}`
    expect(await page(`http://${host}`, `http://${host}/a?b`)).toBe(`${own} ${own}/a?b`)
    expect(await page('http://other.test', 'http://other.test/a')).toBe(
      'http://other.test http://other.test/a',
    )
    expect(await page('null', 'about:blank')).toBe('null about:blank')
  }))

it('answer requests that offer HTTP/2, as the API does', () =>
  withSandbox(async (sandbox, { server, connection }) => {
    const host = sandbox.getHost(await startServer(sandbox))
    const offer = [
      'connection: Upgrade, HTTP2-Settings',
      'upgrade: h2c',
      'http2-settings: AAMAAABkAAQAoAAAAAIAAAAA',
    ]
    const open = (lines: string[], body = '') => {
      const socket = net.connect(Number(new URL(server.url).port), '127.0.0.1')
      socket.write(`${lines.join('\r\n')}\r\n\r\n${body}`)
      return firstReply(socket)
    }
    const preview = await open(['POST /a HTTP/1.1', `host: ${host}`, ...offer, 'content-length: 4'], 'body')
    expect(preview).toMatch(/^HTTP\/1\.1 200 [\s\S]*POST \/a localhost:\d+ body/)
    const key = `x-api-key: ${connection.apiKey}`
    const list = await open(['GET /v2/sandboxes HTTP/1.1', 'host: localhost', key, ...offer])
    expect(list).toMatch(/^HTTP\/1\.1 200 /)
    expect(list).toContain(sandbox.sandboxId)
  }))

/** The first reply on a connection that stays open. */
async function firstReply(socket: net.Socket): Promise<string> {
  let received = ''
  for await (const data of socket) {
    received += data
    const [head = '', body = ''] = received.split('\r\n\r\n')
    const length = /^content-length: (\d+)/im.exec(head)?.[1]
    if (
      received.includes('\r\n\r\n') &&
      (length === undefined ? /\r\n0\r\n/.test(body) || body !== '' : body.length >= Number(length))
    )
      break
  }
  return received
}

/** The reply to the bytes of a request, when the connection has ended. */
async function send(url: string, lines: string[]): Promise<string> {
  const socket = net.connect(Number(new URL(url).port), '127.0.0.1')
  socket.write(`${lines.join('\r\n')}\r\n\r\n`)
  let received = ''
  for await (const data of socket) received += data
  return received
}

it('pass requests and replies on that name trailers', () =>
  withSandbox(async (sandbox, { server }) => {
    const port = await startServer(sandbox)
    const host = sandbox.getHost(port)
    expect(await request(`${server.url}/trailer`, { headers: { host } })).toEqual({ status: 200, text: 'ok' })
    const lines = ['GET /a HTTP/1.1', `host: ${host}`, 'trailer: x', 'connection: close']
    expect(await send(server.url, lines)).toContain(`GET /a localhost:${port}`)
  }))

it('refuse replies that change the protocol of a request', () =>
  withSandbox(async (sandbox, { server }) => {
    const host = sandbox.getHost(await startServer(sandbox))
    for (const path of ['/101', '/bare-101']) {
      const { status, text } = await request(server.url + path, { headers: { host } })
      expect([status, text], path).toEqual([502, expect.stringContaining('replied with 101')])
    }
    expect((await request(`${server.url}/a`, { headers: { host } })).status).toBe(200)
  }))

it('count as connections of their sandbox', () =>
  withSandbox(async (sandbox, { server }) => {
    const host = sandbox.getHost(await startServer(sandbox))
    const { port } = new URL(server.url)
    const open = async (path: string, lines: string[]) => {
      const socket = net.connect(Number(port), '127.0.0.1').on('error', () => {})
      await once(socket, 'connect')
      socket.write([`GET ${path} HTTP/1.1`, `host: ${host}`, ...lines, '', ''].join('\r\n'))
      return socket
    }
    const upgrade = ['connection: upgrade', 'upgrade: own']
    const sockets = await Promise.all([
      ...Array.from({ length: 256 }, () => open('/', upgrade)),
      ...Array.from({ length: 256 }, () => open('/never', [])),
    ])
    try {
      const statusOf = async () => (await request(`${server.url}/a`, { headers: { host } })).status
      await holds(async () => (await statusOf()) === 429)
      expect(await send(server.url, ['GET / HTTP/1.1', `host: ${host}`, ...upgrade])).toContain(
        'HTTP/1.1 429',
      )
      for (const socket of sockets) socket.destroy()
      await holds(async () => (await statusOf()) === 200)
    } finally {
      for (const socket of sockets) socket.destroy()
    }
  }))

it('refuse the port of the server', () =>
  withSandbox(async (sandbox, { server }) => {
    const host = sandbox.getHost(Number(new URL(server.url).port))
    expect((await request(server.url, { headers: { host } })).status).toBe(502)
    const lines = ['GET / HTTP/1.1', `host: ${host}`, 'connection: upgrade', 'upgrade: own']
    expect(await send(server.url, lines)).toContain('HTTP/1.1 502')
  }))

it('reach only programs of their own sandbox, also without network, and no ports that do not exist', () =>
  withSandbox(async (sandbox, { server, create }) => {
    const port = await startServer(sandbox)
    const alone = await create({ allowInternetAccess: false })
    const refused = await request(server.url, { headers: { host: alone.getHost(port) } })
    expect(refused).toMatchObject({ status: 502, text: expect.stringContaining('port is not open') })
    const other = net.createServer().listen(0, '127.0.0.1')
    try {
      await once(other, 'listening')
      const { port: foreign } = other.address() as net.AddressInfo
      for (const one of [sandbox, alone])
        expect((await request(server.url, { headers: { host: one.getHost(foreign) } })).status).toBe(502)
    } finally {
      other.close()
    }
    const headers = { host: alone.getHost(await startServer(alone)) }
    expect(await request(`${server.url}/a`, { headers })).toMatchObject({ status: 200 })
    for (const wrong of [0, 70_000])
      expect((await request(server.url, { headers: { host: sandbox.getHost(wrong) } })).status).toBe(400)
  }))

it('say what is wrong', () =>
  withSandbox(async (sandbox, { server }) => {
    const free = net.createServer().listen(0, '127.0.0.1')
    await once(free, 'listening')
    const { port } = free.address() as net.AddressInfo
    await new Promise((resolve) => free.close(resolve))
    const closed = await request(server.url, { headers: { host: sandbox.getHost(port) } })
    expect(closed).toMatchObject({ status: 502, text: expect.stringContaining('port is not open') })
    const missing = await request(server.url, { headers: { host: `3000-imissing.localhost` } })
    expect(missing).toMatchObject({ status: 502, text: expect.stringContaining('was not found') })
    const other = await request(server.url, { headers: { host: `3000-${sandbox.sandboxId}.evil.example` } })
    expect(other.status).toBe(403)
  }))
