/**
 * WebSockets on the listener of node:http.
 *
 * A request for a WebSocket passes through `fetch` like any other, with the same checks, counts and log. A route accepts
 * it by calling `accept` of its bindings; any other response is written unchanged.
 */

import type { Server as HttpServer, IncomingMessage } from 'node:http'
import { STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { Readable } from 'node:stream'
import { type ServerOptions, type WebSocket, WebSocketServer } from 'ws'
import type { Server } from './public.js'

/** Most bytes of one message from a client. */
const MOST_MESSAGE_BYTES = 1024 * 1024

/** Milliseconds that a client has to answer the close of its WebSocket. */
const CLOSE_TIMEOUT_MS = 2000

/** The subprotocol that a client offers in addition to its token's, so that the token is not sent back. */
const SUBPROTOCOL = 'nacre.terminal'

/** The handler of a route for its open WebSocket. */
export type Accepted = (socket: WebSocket) => void

/** The bindings that `fetch` receives with a request for a WebSocket. */
export interface UpgradeBindings {
  incoming: IncomingMessage
  /** `failed` is called instead when the WebSocket cannot be opened. */
  accept: (accepted: Accepted, failed: () => void) => void
  isAccepted: boolean
}

/** The bindings of a request, when it is for a WebSocket and there is a listener that can open one. */
export function upgradeOf(env: unknown): UpgradeBindings | undefined {
  const bindings = env as Partial<UpgradeBindings> | undefined
  return typeof bindings?.accept === 'function' ? (bindings as UpgradeBindings) : undefined
}

/** Whether a request is for a WebSocket: clients offer other protocols as well, and do not insist. */
export function wantsWebSocket({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  return headers.upgrade?.toLowerCase() === 'websocket'
}

/** Opens WebSockets on a listener. Returns a function that cuts the open ones. */
export function openWebSockets(listener: HttpServer, fetch: Server['fetch']): () => void {
  const options: ServerOptions & { closeTimeout: number } = {
    noServer: true,
    maxPayload: MOST_MESSAGE_BYTES,
    closeTimeout: CLOSE_TIMEOUT_MS,
    handleProtocols: (offered) => (offered.has(SUBPROTOCOL) ? SUBPROTOCOL : (first(offered) ?? false)),
  }
  const sockets = new WebSocketServer(options)
  listener.on('upgrade', (incoming: IncomingMessage, connection: Duplex, head: Buffer) => {
    if (wantsWebSocket(incoming))
      answer(sockets, fetch, incoming, connection, head).catch(() => connection.destroy())
    else replay(listener, incoming, connection, head)
  })
  return () => {
    for (const socket of sockets.clients) socket.terminate()
  }
}

function first<T>(values: Iterable<T>): T | undefined {
  for (const value of values) return value
  return undefined
}

async function answer(
  sockets: WebSocketServer,
  fetch: Server['fetch'],
  incoming: IncomingMessage,
  connection: Duplex,
  head: Buffer,
): Promise<void> {
  const gone = new AbortController()
  const leave = () => gone.abort()
  connection.on('error', leave)
  connection.on('close', leave)
  let accepted: Accepted | undefined
  let fail = () => {}
  const bindings: UpgradeBindings = {
    incoming,
    isAccepted: false,
    accept(open, failed) {
      accepted = open
      fail = failed
      bindings.isAccepted = true
    },
  }
  const request = requestOf(incoming, gone.signal)
  const response = request && (await fetch(request, bindings))
  if (connection.destroyed) {
    fail()
    return
  }
  if (accepted === undefined) {
    write(connection, response ?? new Response(null, { status: 400 }))
    return
  }
  let isOpen = false
  const open = accepted
  sockets.handleUpgrade(incoming, connection, head, (socket) => {
    isOpen = true
    open(socket)
  })
  // A bad handshake has been answered with an error.
  if (!isOpen) fail()
}

function requestOf(incoming: IncomingMessage, signal: AbortSignal): Request | undefined {
  const url = `http://${incoming.headers.host ?? 'localhost'}${incoming.url}`
  if (!incoming.url?.startsWith('/') || !URL.canParse(url)) return undefined
  const headers = new Headers()
  for (const [name, value] of Object.entries(incoming.headers))
    if (value !== undefined) headers.set(name, Array.isArray(value) ? value.join(', ') : value)
  return new Request(url, { method: incoming.method ?? 'GET', headers, signal })
}

/** Writes a response, and closes the connection behind it. */
function write(connection: Duplex, { status, headers, body }: Response): void {
  const lines = [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`, 'connection: close']
  headers.forEach((value, name) => {
    lines.push(`${name}: ${value}`)
  })
  connection.write(`${lines.join('\r\n')}\r\n\r\n`)
  if (body === null) connection.end()
  else
    Readable.fromWeb(body as never)
      .on('error', () => connection.destroy())
      .pipe(connection)
}

/**
 * Returns a request for another protocol to the listener, without its upgrade header: node:http treats every upgrade as
 * wanted. Java's HTTP client asks for h2c with each first request.
 */
function replay(listener: HttpServer, incoming: IncomingMessage, connection: Duplex, head: Buffer): void {
  const { method, url, httpVersion, rawHeaders } = incoming
  const lines = [`${method} ${url} HTTP/${httpVersion}`]
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? ''
    if (!/^(upgrade|connection)$/i.test(name)) lines.push(`${name}: ${rawHeaders[index + 1]}`)
  }
  connection.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]))
  listener.emit('connection', connection)
}
