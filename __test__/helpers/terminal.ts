/** Clients of a terminal: through a WebSocket, and through raw HTTP and WebSocket frames. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { serve } from '@nacre/server'
import { Sandbox } from 'nacre'
import { WebSocket } from 'ws'
import type { Body } from './http.js'
import { until } from './until.js'

export const pty = { cols: 80, rows: 24 }

const HANDSHAKE = {
  Connection: 'Upgrade',
  Upgrade: 'websocket',
  'Sec-WebSocket-Version': '13',
  'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
}

/** A raw client: it sends whatever a test specifies, and reads when the test does. */
export async function rawClient(
  port: number,
  path: string,
  headers: Record<string, string> = {},
): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  const lines = Object.entries({ Host: 'localhost', ...HANDSHAKE, ...headers })
  socket.pause()
  socket.write(
    `GET ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`,
  )
  return socket
}

/** The number of requests that the server is answering, including terminals and this request. */
export async function active(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text()
  return Number(/^nacre_http_requests_active (\d+)$/m.exec(text)?.[1])
}

interface Ended {
  code: number
  reason: string
}

export interface Attached {
  socket: WebSocket
  /** The terminal's output, with plain line ends. */
  text(): string
  /** Text messages from the server. */
  notes: Body[]
  printed(text: string): Promise<void>
  closed: Promise<Ended>
}

/** Opens a terminal. Rejects if the server refuses. */
export async function attach(
  url: string,
  id: string,
  { query = '', protocols = [] as string[], headers = {} as Record<string, string> } = {},
): Promise<Attached> {
  const address = `${url.replace('http', 'ws')}/v1/processes/${id}/terminal${query}`
  const socket = new WebSocket(address, protocols, { headers })
  const pieces: Buffer[] = []
  const notes: Body[] = []
  socket.on('message', (data: Buffer, isBinary: boolean) => {
    if (isBinary) pieces.push(data)
    else notes.push(JSON.parse(data.toString()))
  })
  const closed = new Promise<Ended>((resolve) => {
    socket.on('close', (code, reason) => resolve({ code, reason: reason.toString() }))
  })
  const text = () => Buffer.concat(pieces).toString().replaceAll('\r\n', '\n')
  await once(socket, 'open')
  return {
    ...{ socket, text, notes, closed },
    printed: async (wanted) => {
      await until(
        () => text().includes(wanted) || undefined,
        () => `not printed: ${JSON.stringify(wanted)}, but ${JSON.stringify(text())}`,
      )
    },
  }
}

/** The status and body of the refusal of a WebSocket. */
export async function refusal(port: number, path: string, headers: Record<string, string> = {}) {
  const socket = await rawClient(port, path, headers)
  let text = ''
  socket.on('data', (data) => {
    text += data
  })
  socket.resume()
  await once(socket, 'end')
  socket.destroy()
  const [head = '', body = ''] = text.split('\r\n\r\n')
  return { status: Number(head.split(' ')[1]), body: JSON.parse(body) as Body }
}

/** A binary message from a client, with a mask of zeros. */
export function frame(payload: Uint8Array): Buffer {
  const head = Buffer.alloc(14)
  head[0] = 0x82
  head[1] = 0x80 | 127
  head.writeBigUInt64BE(BigInt(payload.length), 2)
  return Buffer.concat([head, payload])
}

/**
 * Makes a server refuse a WebSocket before the tests. Bun opens a pipe when a response is first written to a raw
 * connection. That pipe then exists before any test.
 */
export async function refuseOnce(): Promise<void> {
  await using sandbox = new Sandbox()
  await using serving = await serve(sandbox, { port: 0 })
  await refusal(serving.port, '/v1/nothing')
}
