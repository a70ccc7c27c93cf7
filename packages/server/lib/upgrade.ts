/**
 * WebSockets on the listener of node:http, and on streams of HTTP/2.
 *
 * A request for a WebSocket passes through `fetch` like any other, with the same checks, counts and log. A route accepts
 * it by calling `accept` of its bindings; any other response is written unchanged.
 */

import type { Server as HttpServer, IncomingMessage } from 'node:http'
import { STATUS_CODES } from 'node:http'
import { constants, type Http2ServerRequest, type Http2ServerResponse } from 'node:http2'
import type { Duplex } from 'node:stream'
import { Readable } from 'node:stream'
import { type ServerOptions, WebSocket, WebSocketServer } from 'ws'
import { replay, wantsWebSocket } from './listener.js'
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
  incoming: IncomingMessage | Http2ServerRequest
  /** `failed` is called instead when the WebSocket cannot be opened. */
  accept: (accepted: Accepted, failed: () => void) => void
  isAccepted: boolean
  /** The connection of HTTP/1.1, and what has arrived behind the request: for a route that takes it over. */
  connection?: Duplex
  head: Uint8Array
}

/** The bindings of a request, when it is for a WebSocket and there is a listener that can open one. */
export function upgradeOf(env: unknown): UpgradeBindings | undefined {
  const bindings = env as Partial<UpgradeBindings> | undefined
  return typeof bindings?.accept === 'function' ? (bindings as UpgradeBindings) : undefined
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
  const request = requestOf(incoming, incoming.headers.host, incoming.method)
  if (request === undefined) {
    write(connection, new Response(null, { status: 400 }))
    return
  }
  const { response, accepted, failed } = await ask(fetch, incoming, connection, request, { connection, head })
  if (connection.destroyed) {
    failed()
    return
  }
  if (accepted === undefined) {
    write(connection, response)
    return
  }
  let isOpen = false
  sockets.handleUpgrade(incoming, connection, head, (socket) => {
    isOpen = true
    accepted(socket)
  })
  // A bad handshake has been answered with an error.
  if (!isOpen) failed()
}

/** What a route does with a request for a WebSocket. */
interface Answer {
  response: Response
  /** Set when the route accepts it. */
  accepted: Accepted | undefined
  failed: () => void
}

/** Keeps each request as long as its connection: in Node, the signal of a collected request follows no other one any more. */
const requests = new WeakMap<Duplex, Request>()

/** Passes a request for a WebSocket on. It is aborted when the connection closes. */
async function ask(
  fetch: Server['fetch'],
  incoming: UpgradeBindings['incoming'],
  connection: Duplex,
  { url, method, headers }: Pick<Request, 'url' | 'method' | 'headers'>,
  raw: Pick<UpgradeBindings, 'connection' | 'head'> = { head: new Uint8Array() },
): Promise<Answer> {
  const gone = new AbortController()
  const leave = () => gone.abort()
  connection.on('error', leave)
  connection.on('close', leave)
  const answer: Pick<Answer, 'accepted' | 'failed'> = { accepted: undefined, failed() {} }
  const bindings: UpgradeBindings = {
    incoming,
    ...raw,
    isAccepted: false,
    accept(accepted, failed) {
      Object.assign(answer, { accepted, failed })
      bindings.isAccepted = true
    },
  }
  const request = new Request(url, { method, headers, signal: gone.signal })
  requests.set(connection, request)
  const response = await fetch(request, bindings)
  return { response, ...answer }
}

/** The method of ws that its types do not have: opens a WebSocket on a stream. */
interface Settable {
  setSocket(connection: Duplex, head: Buffer, options: { maxPayload: number }): void
}

/** Opens a WebSocket on a stream of HTTP/2, by its method CONNECT (RFC 8441). */
export async function openStreamSocket(
  fetch: Server['fetch'],
  incoming: Http2ServerRequest,
  outgoing: Http2ServerResponse,
): Promise<void> {
  const { stream } = outgoing
  const { ':protocol': protocol, 'sec-websocket-protocol': offered = '' } = incoming.headers
  const request = protocol === 'websocket' && requestOf(incoming, 'localhost', 'GET')
  if (!request) {
    outgoing.writeHead(501).end()
    return
  }
  try {
    const { response, accepted, failed } = await ask(fetch, incoming, stream, request)
    if (stream.destroyed) failed()
    else if (accepted === undefined) {
      outgoing.writeHead(response.status, Object.fromEntries(response.headers))
      outgoing.end(await response.text())
    } else {
      const isOurs = String(offered).split(/,\s*/).includes(SUBPROTOCOL)
      stream.respond({ ':status': 200, ...(isOurs && { 'sec-websocket-protocol': SUBPROTOCOL }) })
      const socket = new WebSocket(null as never, undefined, { closeTimeout: CLOSE_TIMEOUT_MS } as object)
      ;(socket as unknown as Settable).setSocket(stream, Buffer.alloc(0), { maxPayload: MOST_MESSAGE_BYTES })
      accepted(socket)
    }
  } catch {
    stream.close(constants.NGHTTP2_INTERNAL_ERROR)
  }
}

function requestOf(
  { url: path = '', headers: given }: UpgradeBindings['incoming'],
  host = 'localhost',
  method = 'GET',
): Pick<Request, 'url' | 'method' | 'headers'> | undefined {
  const url = `http://${host}${path}`
  if (!path.startsWith('/') || !URL.canParse(url)) return undefined
  const headers = new Headers()
  for (const [name, value] of Object.entries(given))
    if (value !== undefined && !name.startsWith(':'))
      headers.set(name, Array.isArray(value) ? value.join(', ') : value)
  return { url, method, headers }
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
