/** Passes a request for a port on, after the checks that every one needs. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Context } from 'hono'
import { aborts } from 'nacre/internal'
import { Refusal, SHUTTING_DOWN } from '../failure.js'
import { unboundArrival } from '../file-bodies.js'
import { upgradeOf } from '../upgrade.js'
import * as passHttp from './pass-http.js'

/** What the listener of `serve` gives with a request. */
export interface Bindings {
  incoming: IncomingMessage
  outgoing: ServerResponse
}

/** Where a request goes, and what each side gets of the other. */
export interface Passage {
  /** With the query, as the program gets it. */
  path: string
  port: number
  /** Aborted when the server ends. */
  closing: AbortSignal
  /** The headers that the program gets, and those that the client gets. */
  headers(headers: passHttp.Headers): passHttp.Headers
  reply(headers: passHttp.Headers): passHttp.Headers
  connect(): Promise<Duplex>
}

/** Segments that servers and clients resolve in different ways. */
const DOTS = /(?:^|[/\\])(?:\.|%2e){1,2}(?:[/\\?]|$)/i

/** After so long without data, the kernel asks whether the client is still there. */
const KEEP_ALIVE_MS = 60_000

/** Resolves when the reply has been sent. Throws a Refusal. */
export async function passOn(c: Context, passage: Passage): Promise<Response> {
  const { path, port, closing } = passage
  if (DOTS.test(path.split('?', 1)[0] ?? ''))
    throw new Refusal('VALIDATION_FAILED', 'a path to a port must have no segments . and ..')
  const { incoming, outgoing } = c.env as Bindings
  const coding = incoming.headers['transfer-encoding']
  if (coding !== undefined && coding.toLowerCase() !== 'chunked')
    throw new Refusal('VALIDATION_FAILED', 'a body for a port can only have the transfer coding chunked')
  if (incoming.headers['service-worker'] !== undefined)
    throw new Refusal(
      'VALIDATION_FAILED',
      'a program on a port can have no service worker: it would outlive the program',
    )
  const upgrade = upgradeOf(c.env)
  const hasBody = Number(incoming.headers['content-length'] ?? 0) > 0 || coding !== undefined
  if (upgrade !== undefined && hasBody)
    throw new Refusal('VALIDATION_FAILED', 'a request for a WebSocket has no body')
  const headers = passage.headers(passHttp.endToEnd(incoming))
  if (upgrade !== undefined && upgrade.connection === undefined)
    throw new Refusal('UPGRADE_REQUIRED', 'WebSockets of ports need HTTP/1.1')
  const connection = await passage.connect()
  if (closing.aborted) {
    connection.destroy()
    throw new Refusal('SHUTTING_DOWN', SHUTTING_DOWN)
  }
  // A body may be a stream without an end. A client that has lost its network is noticed all the same.
  unboundArrival(incoming)
  incoming.socket.setKeepAlive(true, KEEP_ALIVE_MS)
  const onward: passHttp.Onward = { connection, path, headers, reply: passage.reply }
  const release = aborts.onAbort(closing, () => connection.destroy())
  try {
    if (upgrade?.connection === undefined) {
      await passHttp.passRequest(incoming, outgoing, onward)
      return sent(outgoing.statusCode)
    }
    const status = await passHttp.passUpgrade(incoming, upgrade.connection, upgrade.head, onward)
    upgrade.isAccepted = status === 101
    return sent(status)
  } catch (error) {
    if (!(error instanceof passHttp.NoReply)) throw error
    throw new Refusal('BAD_GATEWAY', `the program on port ${port} ${error.message}`, { port })
  } finally {
    release()
  }
}

/** Stands for a response that has gone to the client already. */
function sent(status: number): Response {
  const known = status >= 200 && status < 600 ? status : 200
  return new Response(null, { status: known, headers: { 'x-hono-already-sent': 'true' } })
}
