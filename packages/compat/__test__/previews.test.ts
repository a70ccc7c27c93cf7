/** Servers of sandboxes, by names below localhost. */
import { once } from 'node:events'
import net from 'node:net'
import type { Sandbox } from 'e2b'
import { expect, it } from 'vitest'
import { until } from '../../../__test__/helpers/until.js'
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
      await until(
        async () => (await statusOf()) === 429 || undefined,
        () => 'there is no limit',
      )
      expect(await send(server.url, ['GET / HTTP/1.1', `host: ${host}`, ...upgrade])).toContain(
        'HTTP/1.1 429',
      )
      for (const socket of sockets) socket.destroy()
      await until(
        async () => (await statusOf()) === 200 || undefined,
        () => 'nothing is freed',
      )
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
