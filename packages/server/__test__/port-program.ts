/** A program that listens on a port of a sandbox, and requests as they are written. */
import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import type { Sandbox } from 'nacre'
import type { HttpPlace } from '../../../__test__/helpers/http.js'

/** Replies with the request as JSON. Other paths do what they say. */
const PROGRAM = `
const { createHash } = require('node:crypto')
const server = require('node:http').createServer((q, r) => {
  const url = new URL(q.url, 'http://localhost')
  if (url.pathname === '/headers') {
    for (const [name, value] of url.searchParams) r.appendHeader(name, value)
    return r.end('ok')
  }
  if (url.pathname === '/redirect') return r.writeHead(302, { location: url.searchParams.get('to') }).end()
  if (url.pathname === '/break') return r.writeHead(200, { 'content-length': 10 }).write('half', () => q.socket.destroy())
  if (url.pathname === '/bad') return q.socket.end('no HTTP at all\\r\\n\\r\\n')
  if (url.pathname === '/both')
    return q.socket.end('HTTP/1.1 200 OK\\r\\ncontent-length: 5\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\nHTTP/1.1 200 OK\\r\\n\\r\\n')
  if (url.pathname === '/early') return r.writeHead(413).end('too much')
  if (url.pathname === '/events') {
    r.writeHead(200, { 'content-type': 'text/event-stream' })
    r.flushHeaders()
    q.on('data', (data) => r.write('data: ' + data + '\\n\\n'))
    return q.on('end', () => r.end())
  }
  if (url.pathname === '/large') {
    let left = Number(url.search.slice(1))
    const piece = Buffer.alloc(1 << 16, 'x')
    const more = () => {
      while (left > 0) {
        left -= piece.length
        if (!r.write(piece)) return r.once('drain', more)
      }
      r.end()
    }
    return more()
  }
  let body = ''
  q.setEncoding('latin1').on('data', (data) => { body += data })
  q.on('end', () => r.end(JSON.stringify({ method: q.method, url: q.url, headers: q.headers, raw: q.rawHeaders, body })))
})
server.on('upgrade', (q, socket) => {
  socket.on('error', () => {})
  if (q.url === '/declines') return socket.end('HTTP/1.1 403 Forbidden\\r\\ncontent-length: 2\\r\\n\\r\\nno')
  const accept = createHash('sha1').update(q.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64')
  const [protocol] = (q.headers['sec-websocket-protocol'] ?? '').split(',')
  socket.write('HTTP/1.1 101 Switching Protocols\\r\\nupgrade: websocket\\r\\nconnection: upgrade\\r\\nsec-websocket-accept: ' + accept + '\\r\\n' +
    (protocol ? 'sec-websocket-protocol: ' + protocol + '\\r\\n' : '') + '\\r\\n')
  // A text frame with the request, unmasked.
  const text = JSON.stringify({ url: q.url, headers: q.headers })
  socket.write(Buffer.concat([Buffer.from([0x81, 126, text.length >> 8, text.length & 255]), Buffer.from(text)]))
  // What a client sends is masked; sent back without its mask, as one frame of at most 125 bytes.
  socket.on('data', (data) => {
    const length = data[1] & 127
    if ((data[0] & 15) === 8) return socket.end(Buffer.from([0x88, 0]))
    const mask = data.subarray(2, 6)
    const payload = Buffer.from(data.subarray(6, 6 + length)).map((byte, at) => byte ^ mask[at % 4])
    socket.write(Buffer.concat([Buffer.from([0x82, length]), payload]))
  })
})
server.listen(Number(process.env.PORT ?? 0), process.env.HOST ?? '127.0.0.1', () => console.log('port ' + server.address().port))
`

/** `port`: 0 for any. Resolves with the port on which it listens. */
export async function startProgram(sandbox: Pick<Sandbox, 'startProcess'>, port = 0): Promise<number> {
  const program = await sandbox.startProcess(['node', '-e', PROGRAM], { env: { PORT: String(port) } })
  const { match } = await program.waitForLog(/port (\d+)/)
  return Number(match?.[1])
}

export interface Answer {
  status: number
  headers: IncomingMessage['headers']
  text: string
  // biome-ignore lint/suspicious/noExplicitAny: the JSON of the program
  json: any
}

/** A request as it is written: fetch would normalize paths and drop headers. */
export async function exchange(
  url: string,
  path: string,
  {
    method = 'GET',
    headers = {},
    body = '',
  }: { method?: string; headers?: OutgoingHttpHeaders; body?: string } = {},
): Promise<Answer> {
  const { hostname, port } = new URL(url)
  const request = httpRequest({ host: hostname, port, path, method, headers, agent: false })
  // A reply may come before the server has read everything.
  request.on('error', () => {})
  request.end(body)
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  const received = await text(response)
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    text: received,
    get json() {
      return JSON.parse(received)
    },
  }
}

/** The reply to bytes, when the connection has ended. */
export async function raw({ serving }: Pick<HttpPlace, 'serving'>, lines: string[]): Promise<string> {
  const socket = connect(serving.port, '127.0.0.1')
  socket.write(lines.join('\r\n'))
  return text(socket)
}
