/**
 * The bound of a request's body.
 *
 * A body with a Content-Length, which listeners enforce, is refused before any of it is read. Without one (chunks, HTTP/2),
 * it is read here, up to the bound, and put where Hono looks for a body that has been read. Hono's own `bodyLimit` makes a new
 * Request, which is impossible of those of @hono/node-server, unless that replaces the Request of the whole program.
 */
import type { IncomingMessage } from 'node:http'
import type { Context } from 'hono'
import { Refusal } from './failure.js'
import { bodyOf } from './file-bodies.js'

export async function boundBody({ req: request, env }: Context, mostBytes: number): Promise<void> {
  const { headers, method } = request.raw
  if (Number(headers.get('content-length') ?? 0) > mostBytes) throw tooLarge(mostBytes)
  if (headers.has('content-length') || method === 'GET' || method === 'HEAD') return
  const bytes = await collect(bodyOf(request.raw, env), mostBytes, () => {
    // A client that still sends would otherwise see a broken connection, and no reply.
    const { incoming } = (env ?? {}) as { incoming?: IncomingMessage }
    incoming?.resume?.()
    return tooLarge(mostBytes)
  })
  const text = bytes.toString('utf8')
  // The cache holds promises, contrary to its type.
  request.bodyCache.text = Promise.resolve(text) as unknown as string
}

/** The bytes of a body. `refuse` makes the error of one that has more than `mostBytes`. */
export async function collect(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  mostBytes: number,
  refuse: () => Error,
): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.length
    if (size > mostBytes) throw refuse()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function tooLarge(mostBytes: number): Refusal {
  return new Refusal(
    'PAYLOAD_TOO_LARGE',
    `a body has at most ${mostBytes} bytes (maxBodyBytes of the server): send less at once`,
  )
}
