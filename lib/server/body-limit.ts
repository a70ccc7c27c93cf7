/**
 * The bound of a request's body.
 *
 * A body with a Content-Length is refused before any of it is read. Without one, it is read here, up to the bound, and
 * put where Hono looks for a body that has been read.
 */
import type { HonoRequest } from 'hono'
import { Refusal } from './failure.js'

export async function boundBody(request: HonoRequest, mostBytes: number): Promise<void> {
  const { headers } = request.raw
  if (Number(headers.get('content-length') ?? 0) > mostBytes) throw tooLarge(mostBytes)
  if (!headers.has('transfer-encoding')) return
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of request.raw.body ?? []) {
    size += chunk.length
    if (size > mostBytes) throw tooLarge(mostBytes)
    chunks.push(chunk)
  }
  const text = Buffer.concat(chunks).toString('utf8')
  // The cache holds promises, contrary to its type.
  request.bodyCache.text = Promise.resolve(text) as unknown as string
}

function tooLarge(mostBytes: number): Refusal {
  return new Refusal('PAYLOAD_TOO_LARGE', `a body has at most ${mostBytes} bytes`)
}
