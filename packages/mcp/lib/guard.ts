/**
 * Which requests over HTTP are served: those with the token, to a name of this server, and from no page that is not allowed.
 * A page whose name was made to point here (DNS rebinding) sends that name as `Host`.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { isLoopbackName } from '@nacre/server/internal'
import { Secret } from 'nacre/internal/server'
import type { HttpSettings } from './settings.js'

/** Addresses that stand for all of this machine, whose names are not known. */
const EVERY_ADDRESS = ['0.0.0.0', '::']

interface Refusal {
  status: number
  message: string
}

export class Guard {
  readonly #token: Secret
  readonly #origins: readonly string[]
  readonly #host: string

  constructor({ token, origins, host }: HttpSettings) {
    this.#token = new Secret(token)
    this.#origins = origins
    this.#host = host
  }

  /** The reason not to serve a request. A browser asks first, without the token, whether a page may send it. */
  refusal({ method, headers: { origin, host, authorization } }: IncomingMessage): Refusal | undefined {
    if (origin !== undefined && !this.#origins.includes(origin))
      return { status: 403, message: 'pages of this origin may not call; see --allow-origin' }
    if (!this.#isOwnName(host ?? ''))
      return { status: 403, message: 'the header Host must be localhost or the address of --host' }
    if (method === 'OPTIONS' && origin !== undefined) return undefined
    const token = /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1] ?? ''
    if (this.#token.is(token)) return undefined
    return { status: 401, message: 'the header `Authorization: Bearer <token>` is missing or wrong' }
  }

  #isOwnName(header: string): boolean {
    const name = header.replace(/:\d{1,5}$/, '').toLowerCase()
    const own = this.#host.toLowerCase()
    return isLoopbackName(header) || name === own || name === `[${own}]` || EVERY_ADDRESS.includes(own)
  }
}

/**
 * Replies with an error of JSON-RPC. The connection stays open, so that the runtime discards a body that was not read: a client
 * that still sends would otherwise see a broken connection, and no reply.
 */
export function refuse(response: ServerResponse, { status, message }: Refusal): void {
  const challenge = status === 401 ? { 'www-authenticate': 'Bearer' } : {}
  response.writeHead(status, { 'content-type': 'application/json', ...challenge })
  response.end(JSON.stringify({ jsonrpc: '2.0', error: { code: -32000, message }, id: null }))
}
