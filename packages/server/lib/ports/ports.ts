/**
 * Forwards requests below `/v1/ports/{port}/` to the program of a session that listens on the port, and WebSockets too.
 *
 * A page of such a program has the origin of this server, so it could call the server like a page of the server's own. The
 * guard refuses all calls from pages of this origin while ports are forwarded (guard.ts).
 */
import type { Context } from 'hono'
import { isCode } from 'nacre/internal'
import type { NativeBackend } from 'nacre/internal/server'
import { Refusal } from '../failure.js'
import { type Outside, toClient, toProgram } from './headers.js'
import { Links, type PortLink, type PortOf } from './links.js'
import { type Bindings, passOn } from './pass-on.js'

/** The path as it was sent: what follows the port goes to the program unchanged. */
const TARGET =
  /^(?<prefix>\/v1\/(?:sessions\/(?<sessionId>[A-Za-z0-9._-]{1,128})\/)?ports\/(?<port>\d{1,5})(?:~(?<link>[\w.-]*))?)(?<rest>[/?].*)?$/

/** A request for a port. */
export interface Target extends PortOf {
  prefix: string
  link: string | undefined
  /** The path and the query, as the program gets them; undefined without a slash after the port. */
  path: string | undefined
  query: string
}

/** The port that a request is for. Undefined for other requests, and without the listener of `serve`. */
export function targetOf(c: Context): Target | undefined {
  const { url = '' } = ((c.env ?? {}) as Partial<Bindings>).incoming ?? {}
  const { prefix = '', sessionId, port, link, rest = '' } = TARGET.exec(url)?.groups ?? {}
  if (port === undefined) return undefined
  const path = rest.startsWith('/') ? rest : undefined
  return { prefix, sessionId, port: Number(port), link, path, query: path === undefined ? rest : '' }
}

export class Ports {
  readonly #links = new Links()
  readonly #backend: NativeBackend
  readonly #token: string | undefined
  readonly #closing: AbortSignal

  constructor(backend: NativeBackend, token: string | undefined, closing: AbortSignal) {
    this.#backend = backend
    this.#token = token
    this.#closing = closing
  }

  link(of: PortOf, expiresIn: number): PortLink {
    return this.#links.path(of, expiresIn)
  }

  /** Whether the request has a link. Throws a Refusal for a wrong one. */
  hasLink(target: Target): boolean {
    if (target.link === undefined) return false
    if (this.#links.expiry(target, target.link) !== undefined) return true
    throw new Refusal('UNAUTHORIZED', 'the link is wrong or has expired: ask for another one')
  }

  /** Resolves when the reply has been sent, or with one to send. */
  async forward(c: Context, target: Target): Promise<Response> {
    const { prefix, path, port, query } = target
    if (!(port >= 1 && port <= 65_535)) throw new Refusal('VALIDATION_FAILED', 'the port must be 1 to 65535')
    // Its relative links begin there.
    if (path === undefined)
      return new Response(null, { status: 307, headers: { location: `${prefix}/${query}` } })
    const { host = '' } = (c.env as Bindings).incoming.headers
    const outside: Outside = { host, prefix, port, token: this.#token }
    return passOn(c, {
      ...{ path, port, closing: this.#closing },
      headers: (headers) => toProgram(headers, outside),
      reply: (headers) => toClient(headers, path, outside),
      connect: () => this.#connect(target),
    })
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
