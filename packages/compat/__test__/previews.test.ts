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
  let body = ''
  request.on('data', (data) => { body += data })
  request.on('end', () => response.end([request.method, request.url, request.headers.host, body].join(' ')))
})
server.on('upgrade', (request, socket) => {
  socket.write('HTTP/1.1 101 Switching Protocols\\r\\nconnection: upgrade\\r\\nupgrade: own\\r\\n\\r\\n')
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
