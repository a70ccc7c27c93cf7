/** A request to the server. */
import { ownOnly } from '../../base/own.js'
import type { Endpoint } from '../../protocol/endpoint.js'
import type { Asked } from './failure.js'

export interface Request extends Asked {
  method?: 'GET' | 'POST' | 'PUT' | 'DELETE'
  path: string
  query?: Record<string, string | number | boolean | undefined>
  body?: object
  /** A body of bytes, instead of JSON. */
  content?: Uint8Array | ReadableStream<Uint8Array>
  headers?: Record<string, string>
  /** The reply waits for an event and may take hours, so requestTimeout does not apply. */
  waits?: boolean
  /** The name of the list that is the whole reply. */
  list?: string | undefined
  /** A POST that may be repeated. GET and DELETE always may. */
  isIdempotent?: boolean
  /**
   * Instead of `signal`: its abort cancels the call on the server, and the reply tells whether that was in time. Otherwise
   * the call has the reply that it would have without the abort.
   */
  cancel?: AbortSignal | undefined
  /** Sent although the client has been closed. */
  isFarewell?: boolean
  /** Breaks the connection, instead of the limits of the call. */
  cut?: AbortSignal
  /** Called when the server has begun to answer. */
  onOpen?: () => void
}

/** What a request has besides its endpoint. `params`: of the path. */
export interface Details extends Omit<Request, 'method' | 'path' | 'waits' | 'list'> {
  params?: Record<string, string | number>
}

export function requestTo<T>(
  { method, path, waits, reply }: Pick<Endpoint<T>, 'method' | 'path' | 'waits' | 'reply'>,
  { params = {}, ...rest }: Details,
): Request {
  return ownOnly({
    ...rest,
    method,
    waits,
    list: reply.list,
    path: path.replace(/\{(\w+)\}/g, (_, name) => `${params[name]}`),
  })
}

export function queryOf(query: Request['query']): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query ?? {}))
    if (value !== undefined) parameters.set(name, String(value))
  const text = parameters.toString()
  return text === '' ? '' : `?${text}`
}

/** The options of `fetch` for a request. `headers`: all but the type of its body. */
export function fetchOptions(
  { method = 'POST', body, content }: Request,
  headers: Record<string, string>,
  signal: AbortSignal,
): RequestInit & { duplex?: 'half' } {
  const type = body ? 'application/json' : content && 'application/octet-stream'
  return {
    ...{ method, signal, headers: { ...headers, ...(type && { 'content-type': type }) } },
    // No cookies, and no redirects to other servers.
    ...{ credentials: 'omit', redirect: 'error' },
    ...(body && { body: JSON.stringify(body) }),
    // A stream is sent while the server reads it.
    ...(content && { body: content as NonNullable<RequestInit['body']>, duplex: 'half' }),
  }
}
