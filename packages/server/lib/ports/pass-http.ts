/**
 * Passes a request of HTTP/1.1 on to a server behind a connection, and its reply back; also one for a WebSocket.
 *
 * Each request has a connection of its own, which ends with it. Nothing is taken over as text: the parser of the runtime reads
 * requests and replies, and both are written anew. So what one side counts as a message, the other does too, and what follows
 * a message cannot become another one (request smuggling). Only after the server has accepted a WebSocket, bytes are passed as
 * they are: the connection of the client is used for nothing else then.
 */

import http, { type ClientRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import { type Duplex, pipeline } from 'node:stream'
import { clock } from 'nacre/internal'

const { clearTimeout, setTimeout } = clock

export type Headers = ReadonlyArray<readonly [name: string, value: string]>

/** Where a request goes, and how. */
export interface Onward {
  /** To the server. It ends with the request. */
  connection: Duplex
  /** With the query. */
  path: string
  headers: Headers
  /** The headers of the reply, as the client gets them. */
  reply(headers: Headers): Headers
}

/** Headers that are about one connection alone, and those that the runtime writes. */
const OF_CONNECTION = new Set([
  'connection',
  'expect',
  'http2-settings',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** The server has sent no valid reply, as the message goes on after its name. The client has got nothing. */
export class NoReply extends Error {}

/** Milliseconds that a server has to answer a request for a WebSocket, and to close one after the client. */
const HANDSHAKE_MS = 30_000
const CLOSING_MS = 10_000

const NO_UPGRADE = 'has replied with 101 to a request that is no upgrade'

/** The headers of a message, without those about its connection. */
export function endToEnd({ rawHeaders, headers }: IncomingMessage): Headers {
  const named = new Set(list(headers.connection))
  const pairs = Array.from({ length: rawHeaders.length / 2 }, (_, at) => {
    const [name = '', value = ''] = rawHeaders.slice(2 * at, 2 * at + 2)
    return [name.toLowerCase(), value] as const
  })
  // Without its length, a body would look like another request.
  named.delete('content-length')
  return pairs.filter(([name]) => !OF_CONNECTION.has(name) && !named.has(name))
}

/** The words of a header that is a list, in lower case. */
function list(value: string | string[] | undefined): string[] {
  return String(value ?? '')
    .toLowerCase()
    .split(',')
    .map((word) => word.trim())
}

/** Resolves when the reply has been sent, or the client has left. Rejects with NoReply. */
export function passRequest(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  onward: Onward,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const { headers } = incoming
    // A reply that has begun is cut.
    const fail = (error: unknown) => (outgoing.headersSent ? void outgoing.destroy() : reject(error))
    const leave = () => {
      onward.connection.destroy()
      resolve()
    }
    if (outgoing.destroyed) return leave()
    const isChunked = headers['transfer-encoding'] !== undefined
    // The runtime writes this by itself only for some methods.
    const request = begin(incoming, onward, isChunked ? { 'transfer-encoding': 'chunked' } : {}, fail)
    if (request === undefined) return
    outgoing.once('close', leave)
    request.once('response', (reply) => {
      if (reply.statusCode === 101) return void request.destroy(new NoReply(NO_UPGRADE))
      try {
        outgoing.writeHead(reply.statusCode ?? 502, merged(onward.reply(endToEnd(reply))))
        // Events and slow replies: the client learns now that there is one.
        outgoing.flushHeaders()
      } catch (error) {
        onward.connection.destroy()
        return fail(new NoReply('has sent a reply that cannot be passed on', { cause: error }))
      }
      // Both end together, also when one breaks: a cut reply must not look complete.
      pipeline(reply, outgoing, () => onward.connection.destroy())
    })
    if (headers['content-length'] === undefined && !isChunked) request.end()
    else {
      request.flushHeaders()
      // A server can reply before it has read everything: then, the client still gets the reply.
      incoming.pipe(request)
    }
  })
}

/** `head`: what has followed the request. Resolves with the status of the reply when the connection of the client has ended. */
export function passUpgrade(
  incoming: IncomingMessage,
  client: Duplex,
  head: Uint8Array,
  onward: Onward,
): Promise<number> {
  return new Promise((resolve, reject) => {
    const upgrade = { connection: 'Upgrade', upgrade: incoming.headers.upgrade ?? '' }
    let sent = 0
    const fail = (error: unknown) => (sent > 0 ? void client.destroy() : reject(error))
    const late = setTimeout(() => request?.destroy(new NoReply('has not answered in time')), HANDSHAKE_MS)
    const leave = () => {
      clearTimeout(late)
      onward.connection.destroy()
      resolve(sent)
    }
    if (client.destroyed) return leave()
    const request = begin(incoming, onward, upgrade, (error) => {
      clearTimeout(late)
      fail(error)
    })
    if (request === undefined) return
    client.once('close', leave)
    const write = (status: number, headers: Headers) => {
      sent = status
      const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`)
      client.write(`HTTP/1.1 ${status} ${http.STATUS_CODES[status] ?? ''}\r\n${lines.join('')}\r\n`, 'latin1')
    }
    request.once('response', (reply) => {
      clearTimeout(late)
      if (reply.statusCode === 101) return void request.destroy(new NoReply(NO_UPGRADE))
      // The end of the connection is that of the body. A proxy in front must not use it for another request.
      const others = onward.reply(endToEnd(reply)).filter(([name]) => name !== 'content-length')
      write(reply.statusCode ?? 502, [...others, ['connection', 'close']])
      pipeline(reply, client, () => client.destroy())
    })
    request.once('upgrade', (reply, connection, first) => {
      clearTimeout(late)
      // Its connection is half open: a program that ignores the end of the client must not keep it.
      client.once('end', () => setTimeout(() => client.destroy(), CLOSING_MS).unref())
      const to = reply.headers.upgrade ?? upgrade.upgrade
      write(101, [...onward.reply(endToEnd(reply)), ['connection', 'Upgrade'], ['upgrade', to]])
      if (first.length > 0) client.write(first)
      if (head.length > 0) connection.write(head)
      // Pipelines of Bun have more listeners than it takes for a leak.
      for (const end of [client, connection]) end.setMaxListeners(0)
      pipeline(client, connection, client, () => {
        connection.destroy()
        client.destroy()
      })
    })
    request.end()
  })
}

/** Begins the request to the server. Rejects if that is not possible, or no reply comes. */
function begin(
  incoming: IncomingMessage,
  { connection, path, headers }: Onward,
  more: Record<string, string>,
  reject: (error: unknown) => void,
): ClientRequest | undefined {
  const fail = (error: unknown) => {
    connection.destroy()
    if (error instanceof NoReply) return reject(error)
    const { message } = error as Error
    reject(new NoReply(`has sent no valid reply (${message})`, { cause: error }))
  }
  connection.on('error', () => {})
  try {
    const begun = http.request({
      method: incoming.method,
      path,
      // A server that closes the connection behind an early reply would break what is still being sent, and so the reply.
      headers: { ...merged(headers), connection: 'keep-alive', ...more },
      setHost: false,
      createConnection: () => connection,
    })
    begun.on('error', fail)
    if (more.upgrade === undefined) begun.once('upgrade', () => fail(new NoReply(NO_UPGRADE)))
    return begun
  } catch (error) {
    fail(error)
    return undefined
  }
}

/** As node:http takes them. */
function merged(headers: Headers): Record<string, string | string[]> {
  const all = new Map<string, string[]>()
  for (const [name, value] of headers) all.set(name, [...(all.get(name) ?? []), value])
  const entries = Array.from(all, ([name, values]) => [name, values.length === 1 ? values[0] : values])
  return Object.fromEntries(entries)
}
