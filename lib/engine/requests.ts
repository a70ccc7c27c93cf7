/** Requests over a connection of HTTP/2, as the client makes them with `fetch`. */
import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders } from 'node:http2'
import { http2, stream as streams } from '../base/builtin.js'

/** Bytes of a response that wait for its reader. */
const MOST_WAITING_BYTES = 1024 * 1024

/** Reports why a stream has ended early. */
type Explain = () => Promise<unknown>

/**
 * Sends a request and resolves with the beginning of its response. `opened` is called with its stream. `explain` makes the
 * error of a stream that has ended early.
 */
export async function send(
  session: ClientHttp2Session,
  url: string,
  init: RequestInit,
  opened: (stream: ClientHttp2Stream) => void,
  explain: Explain,
): Promise<Response> {
  const { method = 'GET', headers, body } = init
  const signal = init.signal ?? undefined
  signal?.throwIfAborted()
  const { pathname, search } = new URL(url)
  const bytes = typeof body === 'string' ? Buffer.from(body) : body instanceof Uint8Array ? body : undefined
  const sent = {
    ...(headers as Record<string, string>),
    ':method': method,
    ':path': pathname + search,
    ...(bytes && { 'content-length': bytes.length }),
  }
  const stream = session.request(sent, { endStream: !body })
  opened(stream)
  const { NGHTTP2_CANCEL } = http2().constants
  const cancel = () => stream.close(NGHTTP2_CANCEL)
  signal?.addEventListener('abort', cancel, { once: true })
  stream.once('close', () => signal?.removeEventListener('abort', cancel))
  const fail = async () => (signal?.aborted ? signal.reason : explain())
  if (bytes !== undefined) stream.end(bytes)
  else if (body) upload(body as ReadableStream<Uint8Array>, stream, cancel)
  return new Promise((resolve, reject) => {
    // It is followed by the close.
    stream.on('error', () => {})
    const early = () => void fail().then(reject)
    stream.once('close', early)
    stream.once('response', (received) => {
      stream.off('close', early)
      try {
        resolve(responseOf(stream, received, cancel, fail))
      } catch (error) {
        // Any program may be at the other end, and `fetch` knows no such status.
        cancel()
        reject(error)
      }
    })
  })
}

/** Sends a body as fast as the server takes it. The server may answer before it has taken all of it. */
function upload(body: ReadableStream<Uint8Array>, stream: ClientHttp2Stream, cancel: () => void): void {
  const source = streams().Readable.fromWeb(body as never)
  source.on('error', cancel)
  stream.once('close', () => source.destroy())
  source.pipe(stream)
}

function responseOf(
  stream: ClientHttp2Stream,
  received: IncomingHttpHeaders & { ':status'?: number },
  cancel: () => void,
  fail: Explain,
): Response {
  const status = received[':status'] ?? 0
  const headers = new Headers()
  for (const [name, value] of Object.entries(received))
    if (!name.startsWith(':')) headers.set(name, String(value))
  let isOpen = true
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        stream.on('data', (chunk: Buffer) => {
          if (!isOpen) return
          controller.enqueue(chunk)
          if ((controller.desiredSize ?? 0) <= 0) stream.pause()
        })
        stream.once('end', () => {
          if (!isOpen || stream.rstCode !== 0) return
          isOpen = false
          controller.close()
        })
        stream.once('close', () => {
          if (isOpen) void fail().then((error) => isOpen && controller.error(error))
        })
      },
      pull: () => void stream.resume(),
      cancel() {
        isOpen = false
        cancel()
      },
    },
    { highWaterMark: MOST_WAITING_BYTES, size: (chunk) => chunk.length },
  )
  return new Response(body, { status, headers })
}
