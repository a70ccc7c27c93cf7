/** What every listener of node:http needs to end in order, and to answer requests that offer another protocol. */
import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'

/**
 * Returns a function that resolves when the last byte of every reply has left this process. A listener is closed only then:
 * on Node and on Bun, `close()` cuts connections whose reply is complete, but still on its way.
 */
export function trackReplies(listener: HttpServer): () => Promise<void> {
  const open = new Set<ServerResponse>()
  let wake = () => {}
  listener.on('request', (_, outgoing: ServerResponse) => {
    open.add(outgoing)
    const end = () => {
      open.delete(outgoing)
      if (open.size === 0) wake()
    }
    outgoing.once('finish', end).once('close', end)
  })
  return () =>
    new Promise((resolve) => {
      wake = resolve
      if (open.size === 0) resolve()
    })
}

/** Whether a request is for a WebSocket: clients offer other protocols as well, and do not insist. */
export function wantsWebSocket({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  return headers.upgrade?.toLowerCase() === 'websocket'
}

/**
 * Returns a request for another protocol to the listener, without its upgrade header: node:http treats every upgrade as
 * wanted. Java's HTTP client asks for h2c with each first request.
 */
export function replay(
  listener: HttpServer,
  incoming: IncomingMessage,
  connection: Duplex,
  head: Buffer,
): void {
  const { method, url, httpVersion, rawHeaders } = incoming
  const lines = [`${method} ${url} HTTP/${httpVersion}`]
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? ''
    if (!/^(upgrade|connection)$/i.test(name)) lines.push(`${name}: ${rawHeaders[index + 1]}`)
  }
  connection.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]))
  listener.emit('connection', connection)
}
