/** Clients of a terminal that speak HTTP and WebSocket frames by themselves. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

const HANDSHAKE = {
  Connection: 'Upgrade',
  Upgrade: 'websocket',
  'Sec-WebSocket-Version': '13',
  'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
}

/** A client of bytes: it sends what a test wants, and reads when the test does. */
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

/** How many requests the server answers now, terminals and this one included. */
export async function active(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text()
  return Number(/^nacre_http_requests_active (\d+)$/m.exec(text)?.[1])
}
