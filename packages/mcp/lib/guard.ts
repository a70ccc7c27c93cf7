/** Which requests over HTTP are served, and how others are refused. */
import type { ServerResponse } from 'node:http'
import { Guard, isLoopbackName } from '@nacre/server/internal'
import type { HttpSettings } from './settings.js'

/** Addresses that stand for all of this machine, whose names are not known. */
const EVERY_ADDRESS = ['0.0.0.0', '::']

/** Also with the token, a page whose name was made to point here is refused: clients keep the token for this server's name. */
export function guardOf({ token, origins, host }: HttpSettings): Guard {
  const own = host.toLowerCase()
  const isName = (header: string) => {
    const name = header.replace(/:\d{1,5}$/, '').toLowerCase()
    return isLoopbackName(header) || name === own || name === `[${own}]` || EVERY_ADDRESS.includes(own)
  }
  return new Guard({ token, allowedOrigins: origins, isName })
}

/**
 * Replies with an error of JSON-RPC. The connection stays open, and a body that was not read is discarded: a client that still
 * sends would otherwise see a broken connection, and no reply.
 */
export function refuse(
  response: ServerResponse,
  { status, message }: { status: number; message: string },
): void {
  const challenge = status === 401 ? { 'www-authenticate': 'Bearer' } : {}
  response.writeHead(status, { 'content-type': 'application/json', ...challenge })
  response.end(JSON.stringify({ jsonrpc: '2.0', error: { code: -32000, message }, id: null }))
  response.req.resume()
}
