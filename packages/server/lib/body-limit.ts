/**
 * The bound of a request's body.
 *
 * A body with a Content-Length, which listeners enforce, is refused before any of it is read. Without one (chunks, HTTP/2),
 * it is read here, up to the bound, and put where Hono looks for a body that has been read.
 */
import type { HonoRequest } from 'hono'
import { Refusal } from './failure.js'

export async function boundBody(request: HonoRequest, mostBytes: number): Promise<void> {
  const { headers } = request.raw
  if (Number(headers.get('content-length') ?? 0) > mostBytes) throw tooLarge(mostBytes)
  const { body } = request.raw
  if (headers.has('content-length') || body === null) return
  const bytes = await collect(body, mostBytes, () => tooLarge(mostBytes))
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
  return new Refusal('PAYLOAD_TOO_LARGE', `a body has at most ${mostBytes} bytes`)
}
