/**
 * Files as bodies. An upload may have any length and any speed: only an accepted caller can send more of it than the
 * connection buffers.
 */

import type { IncomingMessage, ServerResponse } from 'node:http'
import { constants, type Http2ServerResponse } from 'node:http2'
import { clock } from 'nacre/internal'

const CONTENT = /^(?:\/forks\/[^/?]+)?\/v1\/(sessions\/[^/?]+\/files\/content|uploads\/[^/?]+|archive)(\?|$)/

/** By method, and by path with or without a query. */
export function isUpload(method: string | undefined, path: string | undefined): boolean {
  return method === 'PUT' && path !== undefined && CONTENT.test(path)
}

/**
 * The body of an upload. The stream of node:http is used directly: a web stream would copy every chunk.
 * An upload that is refused ends without the connection, which still carries the response.
 */
export function bodyOf(request: Request, env: unknown): AsyncIterable<Uint8Array> {
  const { incoming } = (env ?? {}) as { incoming?: IncomingMessage }
  if (typeof incoming?.iterator === 'function') return incoming.iterator({ destroyOnReturn: false })
  return (request.body as AsyncIterable<Uint8Array> | null) ?? nothing()
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

/** Breaks the connection of a response that is incomplete. False without a connection. */
export function cut(env: unknown): boolean {
  const { outgoing } = (env ?? {}) as { outgoing?: ServerResponse | Http2ServerResponse }
  // On HTTP/2, a stream that is only destroyed looks like the end of the response.
  if (outgoing !== undefined && 'stream' in outgoing) outgoing.stream.close(constants.NGHTTP2_INTERNAL_ERROR)
  else outgoing?.destroy()
  return outgoing !== undefined
}

const LATE = 'HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n'

/** What ends the limits of `boundArrival`. */
const limits = new WeakMap<IncomingMessage, () => void>()

/** A body may arrive without an end from now on. */
export function unboundArrival(incoming: IncomingMessage): void {
  limits.get(incoming)?.()
}

/** Ends a request, other than an upload, whose body has not arrived in time. The listener bounds the headers. */
export function boundArrival(incoming: IncomingMessage, outgoing: ServerResponse, timeoutMs: number): void {
  const { headers, method, url } = incoming
  const hasBody = Number(headers['content-length'] ?? 0) > 0 || headers['transfer-encoding'] !== undefined
  if (!hasBody || isUpload(method, url)) return
  const timer = clock.setTimeout(() => {
    if (incoming.complete) return
    if (!outgoing.headersSent) incoming.socket.write(LATE)
    incoming.socket.destroySoon()
  }, timeoutMs)
  timer.unref()
  const release = () => clock.clearTimeout(timer)
  limits.set(incoming, release)
  incoming.once('close', release)
}
