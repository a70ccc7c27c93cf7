/** What every listener of node:http needs to end in order, and to answer requests that offer another protocol. */
import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { within } from './within.js'

/** Whether every reply was sent, and when all connections but those of WebSockets are closed. */
export interface ListenerEnd {
  isSent: boolean
  closed: Promise<void>
}

/**
 * Returns a function that closes the listener when the last byte of every reply has left this process, and after some
 * milliseconds at the latest. On Node and on Bun, `close()` alone cuts connections whose reply is complete, but still on its way.
 */
export function endAfterReplies(listener: HttpServer): (milliseconds: number) => Promise<ListenerEnd> {
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
  const sent = () =>
    new Promise<void>((resolve) => {
      wake = resolve
      if (open.size === 0) resolve()
    })
  return async (milliseconds) => {
    const isSent = await within(milliseconds, sent())
    const closed = new Promise<void>((resolve) => {
      listener.close(() => resolve())
    })
    listener.closeAllConnections()
    return { isSent, closed }
  }
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
