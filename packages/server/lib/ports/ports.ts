/**
 * Forwards requests below `/v1/ports/{port}/` to the program of a session that listens on the port, and WebSockets too.
 *
 * A page of such a program has the origin of this server, so it could call the server like a page of the server's own. The
 * guard refuses all calls from pages of this origin while ports are forwarded (guard.ts).
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Context } from 'hono'
import { aborts, isCode } from 'nacre/internal'
import type { NativeBackend } from 'nacre/internal/server'
import { Refusal, SHUTTING_DOWN } from '../failure.js'
import { unboundArrival } from '../file-bodies.js'
import { upgradeOf } from '../upgrade.js'
import { type Outside, toClient, toProgram } from './headers.js'
import { Links, type PortOf } from './links.js'
import * as passHttp from './pass-http.js'

/** The path as it was sent: what follows the port goes to the program unchanged. */
const TARGET =
  /^(?<prefix>\/v1\/(?:sessions\/(?<sessionId>[A-Za-z0-9._-]{1,128})\/)?ports\/(?<port>\d{1,5})(?:~(?<link>[\w.-]*))?)(?<rest>[/?].*)?$/
/** Segments that servers and clients resolve in different ways. */
const DOTS = /(?:^|[/\\])(?:\.|%2e){1,2}(?:[/\\?]|$)/i

/** After so long without data, the kernel asks whether the client is still there. */
const KEEP_ALIVE_MS = 60_000

/** A request for a port. */
export interface Target extends PortOf {
  prefix: string
  link: string | undefined
  /** The path and the query, as the program gets them; undefined without a slash after the port. */
  path: string | undefined
  query: string
}

interface Bindings {
  incoming?: IncomingMessage
  outgoing?: ServerResponse
}

/** The port that a request is for. Undefined for other requests, and without the listener of `serve`. */
export function targetOf(c: Context): Target | undefined {
  const { url = '' } = ((c.env ?? {}) as Bindings).incoming ?? {}
  const { prefix = '', sessionId, port, link, rest = '' } = TARGET.exec(url)?.groups ?? {}
  if (port === undefined) return undefined
  const path = rest.startsWith('/') ? rest : undefined
  return { prefix, sessionId, port: Number(port), link, path, query: path === undefined ? rest : '' }
}

export class Ports {
  readonly links = new Links()
  readonly #backend: NativeBackend
  readonly #token: string | undefined
  readonly #closing: AbortSignal

  constructor(backend: NativeBackend, token: string | undefined, closing: AbortSignal) {
    this.#backend = backend
    this.#token = token
    this.#closing = closing
  }

  /** Whether the request has a link. Throws a Refusal for a wrong one. */
  hasLink(target: Target): boolean {
    if (target.link === undefined) return false
    if (this.links.isValid(target, target.link)) return true
    throw new Refusal('UNAUTHORIZED', 'the link is wrong or has expired: ask for another one')
  }

  /** Resolves when the reply has been sent, or with one to send. */
  async forward(c: Context, target: Target): Promise<Response> {
    const { prefix, path, port, query } = target
    if (!(port >= 1 && port <= 65_535)) throw new Refusal('VALIDATION_FAILED', 'the port must be 1 to 65535')
    // Its relative links begin there.
    if (path === undefined)
      return new Response(null, { status: 307, headers: { location: `${prefix}/${query}` } })
    if (DOTS.test(path.split('?', 1)[0] ?? ''))
      throw new Refusal('VALIDATION_FAILED', 'a path to a port must have no segments . and ..')
    const { incoming, outgoing } = c.env as Required<Bindings>
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
    const { host = '' } = incoming.headers
    const outside: Outside = { host, prefix, port, token: this.#token }
    const headers = toProgram(passHttp.endToEnd(incoming), outside)
    if (upgrade !== undefined && upgrade.connection === undefined)
      throw new Refusal('UPGRADE_REQUIRED', 'WebSockets of ports need HTTP/1.1')
    const connection = await this.#connect(target)
    if (this.#closing.aborted) {
      connection.destroy()
      throw new Refusal('SHUTTING_DOWN', SHUTTING_DOWN)
    }
    // A body may be a stream without an end. A client that has lost its network is noticed all the same.
    unboundArrival(incoming)
    incoming.socket.setKeepAlive(true, KEEP_ALIVE_MS)
    const onward: passHttp.Onward = {
      ...{ connection, path, headers },
      reply: (received) => toClient(received, path, outside),
    }
    const release = aborts.onAbort(this.#closing, () => connection.destroy())
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

  async #connect({ sessionId, port }: PortOf) {
    try {
      return await this.#backend.connectPort(sessionId, port)
    } catch (error) {
      // It is not about what the client sent.
      if (isCode(error, 'SESSION_NOT_FOUND')) throw new Refusal('NOT_FOUND', error.message, { sessionId })
      throw error
    }
  }
}

/** Stands for a response that has gone to the client already. */
function sent(status: number): Response {
  const known = status >= 200 && status < 600 ? status : 200
  return new Response(null, { status: known, headers: { 'x-hono-already-sent': 'true' } })
}
