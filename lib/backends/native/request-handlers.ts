/** Lets functions of this program answer requests of commands, and send them on. */
import type { Duplex } from 'node:stream'
import { AbortError } from '../../base/errors.js'
import type { RequestHandler } from '../../calls/index.js'
import { Frames } from './request-frames.js'

interface Head {
  method: string
  url: string
  headers: [name: string, value: string][]
}

/** Has the reply of `fetch`, or what stopped the request. */
type ReplyHead = { status: number; headers: [string, string][] } | { error: string }

/** Statuses whose replies have no body. */
const EMPTY = new Set([204, 205, 304])

/** Keeps each request as long as its connection: in Node, the signal of a collected request follows no other one any more. */
const requests = new WeakMap<Duplex, Request>()

/**
 * Answers the request on a connection. Never rejects: a connection without a reply is a 500 for the program, and `failed` learns
 * why. `open` connects to what sends requests on.
 */
export async function serveRequest(
  connection: Duplex,
  handler: RequestHandler,
  sessionId: string,
  open: () => Duplex,
  failed: (host: string, error: unknown) => void,
): Promise<void> {
  const frames = new Frames(connection)
  const gone = new AbortController()
  let host = ''
  try {
    const { method, url, headers } = (await frames.head()) as Head
    host = new URL(url).host
    const abort = () => gone.abort(new AbortError(undefined, undefined, 'the request'))
    // Behind a request, nothing follows but the end.
    const body = frames.body(() => void frames.read().catch(abort), abort)
    const request = new Request(url, {
      ...{ method, headers, signal: gone.signal, redirect: 'manual' },
      ...(method !== 'GET' && method !== 'HEAD' && ({ body, duplex: 'half' } as object)),
    })
    requests.set(connection, request)
    const context = { sessionId, forward: (request: Request) => forward(open, request) }
    const response = await handler(request, context)
    if (!isResponse(response))
      throw new TypeError('the function must return a Response with a status of 200 or more')
    await frames.writeAll({ status: response.status, headers: headersOf(response) }, response.body)
    connection.end()
  } catch (error) {
    if (!gone.signal.aborted) failed(host, error)
    frames.close()
  }
}

async function forward(open: () => Duplex, request: Request): Promise<Response> {
  const { method, url, headers, body, signal } = request
  signal.throwIfAborted()
  const connection = open()
  requests.set(connection, request)
  const frames = new Frames(connection)
  const stop = () => frames.close()
  signal.addEventListener('abort', stop, { once: true })
  try {
    const sent = frames.writeAll({ method, url, headers: [...headers] }, body)
    // A host may reply before the whole request is sent, and a connection that ends has no reply.
    sent.catch(() => {})
    const reply = (await frames.head()) as ReplyHead
    if ('error' in reply) throw new TypeError(reply.error)
    const { status } = reply
    const hasBody = method !== 'HEAD' && !EMPTY.has(status)
    if (!hasBody) frames.close()
    return new Response(hasBody ? frames.body(stop, stop) : null, { status, headers: reply.headers })
  } catch (error) {
    frames.close()
    signal.throwIfAborted()
    throw error instanceof TypeError
      ? error
      : new TypeError(`the request to ${url} has failed`, { cause: error })
  }
}

/** Also one of another realm, or of a library. `Response.error()` has the status 0. */
function isResponse(value: unknown): value is Response {
  const { status, headers } = (value ?? {}) as Partial<Response>
  return Number(status) >= 200 && typeof headers?.getSetCookie === 'function'
}

function headersOf({ headers, url }: Response): [string, string][] {
  const cookies = headers.getSetCookie().map((cookie): [string, string] => ['set-cookie', cookie])
  // `fetch` has decoded the body.
  const left = url === '' ? ['set-cookie'] : ['set-cookie', 'content-encoding']
  return [...[...headers].filter(([name]) => !left.includes(name)), ...cookies]
}
