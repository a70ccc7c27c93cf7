/**
 * The declaration of routes, and the code around their handlers: the one place where requests become calls.
 *
 * A route is data: the OpenAPI document is made from the same kinds that requests are read by.
 */

import type { Context, Hono } from 'hono'
import type { Logger } from 'nacre'
import { report } from 'nacre/internal'
import { protocol } from 'nacre/internal/server'
import { type ByteReply, byteResponse } from './byte-response.js'
import { callMismatch } from './callers.js'
import type { ServerContext } from './context.js'
import { EventLog } from './event-log.js'
import {
  type Dialect,
  dialectOf,
  type Envelope,
  envelope,
  isOurFault,
  Refusal,
  SHUTTING_DOWN,
} from './failure.js'
import { bodyOf, cut } from './file-bodies.js'
import { keptAlive } from './keep-alive.js'
import { firstOf } from './lifetime.js'
import { bodyOfPieces, listPieces } from './long-list.js'
import { jsonBody } from './media-type.js'
import { cursorOf, paramsOf } from './parameters.js'
import { readJson, type Shape } from './request-json.js'
import { sendLater } from './sent.js'
import type { SocketSession } from './socket-session.js'
import { EVENT_HEADERS, type EventStream, eventResponse } from './sse.js'
import { upgradeOf } from './upgrade.js'
import { encodeReply, type Sendable } from './wire.js'

/** A checked request. */
export interface Call<Path, Q, B> {
  params: protocol.ParamsOf<Path>
  query: Q
  body: B
  /** Aborted when the client disconnects or the server ends. */
  signal: AbortSignal
  /** Where a client resumes a stream: the id of the last event that it has received. */
  lastEventId: string | undefined
  /** HEAD for a GET without its body. */
  method: string
  header(name: string): string | undefined
  /** The caller's hold on the session or the process. */
  hold: string | undefined
  /** The body of an upload. */
  upload: AsyncIterable<Uint8Array> | undefined
}

type Reply<T> = Sendable<T> | 'bytes' | 'events' | 'text' | 'socket'

export interface Route<Path extends string, Q, B, T> {
  method: protocol.Endpoint<unknown>['method']
  path: Path
  summary: string
  query?: Shape<Q>
  body?: Shape<B>
  /** The body is a file, and streamed. */
  upload?: boolean
  /** The table of the reply; 'bytes' for the content of a file, 'events' for a stream of events, 'socket' for a WebSocket. */
  reply: Reply<T>
  /** The codes of errors other than those of every route. */
  errors?: string[]
  /** It needs no token. */
  isOpen?: boolean
  /** It may take longer than clients and proxies wait for a response. */
  waits?: boolean
  handle(call: Call<Path, Q, B>): Promise<NoInfer<T>>
}

export type AnyRoute = Route<string, never, never, unknown>

export type Define = <const Path extends string, Q, B, T>(route: Route<Path, Q, B, T>) => void

/** Returns a function that adds a route to the app. */
export function definer(app: Hono, server: ServerContext, isAdded: (route: AnyRoute) => void): Define {
  return (route) => {
    const { method, path, query, body, upload } = route
    const params = paramsOf(path)
    isAdded(route as unknown as AnyRoute)
    app.on(method, path.replaceAll(/\{(\w+)\}/g, ':$1'), async (c) => {
      const json = body && (await jsonBody(c))
      const subject = subjectOf(c.req.param(), json)
      try {
        const call = {
          params: readJson(params, c.req.param(), 'the path'),
          query: query && readJson(query, queryOf(c), 'the query'),
          body: body && readJson(body, json, 'the body'),
          lastEventId: c.req.header('last-event-id'),
          method: c.req.method,
          header: (name: string) => c.req.header(name),
          hold: c.req.header(protocol.HOLD_HEADER),
          upload: upload ? bodyOf(c.req.raw, c.env) : undefined,
        }
        return await answer(server, route as unknown as AnyRoute, c, call as never, { json, subject })
      } catch (error) {
        return errorResponse(server, error, c, subject)
      }
    })
  }
}

/** The query. A parameter that is given twice is a list. */
function queryOf(c: Context): object {
  const given = Object.entries(c.req.queries()).map(([name, all]) => [name, all.length === 1 ? all[0] : all])
  return Object.fromEntries(given)
}

/** Calls the handler, and makes a response of its result or its error. */
async function answer(
  server: ServerContext,
  route: AnyRoute,
  c: Context,
  given: Omit<Call<string, never, never>, 'signal'>,
  { json, subject }: { json: unknown; subject: object },
): Promise<Response> {
  const gone = c.req.raw.signal
  // The body may have arrived only now. What is started after the end of the server would outlive it.
  if (server.closing.aborted) throw new Refusal('SHUTTING_DOWN', SHUTTING_DOWN)
  const asked = { method: given.method, url: c.req.url, body: json }
  const kept = route.method === 'GET' ? undefined : server.callers.callOf(c.req.raw.headers, asked)
  const { signal, release } = kept
    ? { signal: kept.signal, release: kept.attach(gone) }
    : // A download has its own limit then.
      firstOf(route.reply === 'bytes' ? [gone] : [gone, server.closing])
  const upload = given.upload && kept?.upload(given.upload)
  const work = async () => route.handle({ ...given, upload: upload?.body ?? given.upload, signal })
  const sent = sendLater(c)
  const end = () => {
    release()
    sent()
  }
  const refuse = (error: unknown) => errorResponse(server, error, c, subject)
  if (route.reply === 'events') {
    try {
      const failed = (error: unknown) => errorEvent(server, error, dialectOf(c.req.path), subject, gone)
      const begin = async () => ((await work()) as EventStream).source
      const log = await kept?.events(async () => new EventLog(await begin(), failed))
      const source = log?.after(cursorOf(given.lastEventId ?? '0'), server.closing) ?? (await begin())
      if (given.method === 'HEAD') {
        // Nothing reads its body.
        await source.return()
        end()
        return new Response(null, { headers: EVENT_HEADERS })
      }
      const { closing, heartbeat } = server
      return eventResponse(source, { gone, closing, heartbeat, failed, onEnd: end })
    } catch (error) {
      end()
      return refuse(error)
    }
  }
  if (route.reply === 'bytes') {
    try {
      const fail = (error: unknown) => {
        logFault(server.logger, 'a download failed', error, gone)
        return cut(c.env)
      }
      return byteResponse((await work()) as ByteReply, { gone, closing: server.closing, onEnd: end, fail })
    } catch (error) {
      end()
      return refuse(error)
    }
  }
  if (route.reply === 'socket') {
    try {
      const upgrade = upgradeOf(c.env)
      if (upgrade === undefined)
        throw new Refusal('UPGRADE_REQUIRED', 'this route is a WebSocket', {}, { upgrade: 'websocket' })
      const session = (await work()) as SocketSession
      upgrade.accept((socket) => session.open(socket, end), end)
      return new Response()
    } catch (error) {
      end()
      return refuse(error)
    }
  }
  const compared = async (response: Response) =>
    (await upload?.isOther()) ? refuse(callMismatch()) : response
  const perform = () =>
    work()
      .then((value) => replyOf(route.reply, value))
      .catch(refuse)
  const settled = kept === undefined ? perform() : kept.reply(perform).then(compared)
  if (route.waits) return keptAlive(settled, server.heartbeat, end)
  return settled.finally(end)
}

/** A reply that is no long list is one string of JSON, and a string has a greatest length. */
function replyOf(reply: Reply<unknown>, value: unknown): Response {
  if (typeof reply === 'string') return value as Response
  const pieces = listPieces(reply, value)
  if (pieces !== undefined)
    return new Response(bodyOfPieces(pieces), { headers: { 'content-type': 'application/json' } })
  const json = encodeReply(reply, value)
  try {
    return Response.json(json)
  } catch (error) {
    throw tooLarge(error)
  }
}

function tooLarge(error: unknown): Refusal {
  return new Refusal('REPLY_TOO_LARGE', `${TOO_LARGE} (${error})`)
}

const TOO_LARGE =
  'the reply is too large for one JSON text: ask for less, with a smaller maxBuffer, maxBytes or maxDepth, or read it as a stream'

/** The envelope as a response. */
export function errorResponse(
  server: Pick<ServerContext, 'logger' | 'metrics'>,
  error: unknown,
  { req }: Context,
  subject?: object,
): Response {
  logFault(server.logger, 'a request failed', error, req.raw.signal)
  server.metrics.refusal()
  const dialect = dialectOf(req.path)
  const headers = error instanceof Refusal ? error.headers : {}
  try {
    return enveloped(envelope(error, dialect, subject), headers)
  } catch (cause) {
    // An error has the result of its command.
    return enveloped(envelope(tooLarge(cause), dialect, subject))
  }
}

function enveloped(body: Envelope, headers: Record<string, string> = {}): Response {
  return Response.json(body, { status: body.httpStatus, headers })
}

/** The last event of a stream that fails while it is read. `gone` is aborted when the client has disconnected. */
export function errorEvent(
  { logger }: Pick<ServerContext, 'logger'>,
  error: unknown,
  dialect: Dialect,
  subject?: object,
  gone?: AbortSignal,
): object {
  logFault(logger, 'a stream failed', error, gone)
  const sent = envelope(error, dialect, subject)
  return dialect === 'v1'
    ? { type: 'error', time: sent.timestamp, error: sent }
    : { type: 'error', error: sent.message, code: sent.code, timestamp: sent.timestamp, ...subject }
}

/** Logs an error that is the server's own fault. A failure because the client has disconnected is not. */
function logFault(logger: Logger | undefined, what: string, error: unknown, gone?: AbortSignal): void {
  if (!isOurFault(error)) return
  if (gone?.aborted) report(logger, 'debug', `${what} after its client had disconnected: ${error}`)
  else report(logger, 'error', `${what}: ${error}`)
}

/** Longer ids are refused, and need not be repeated. */
const MOST_ID_CHARACTERS = 128

/** The ids that a request names. */
function subjectOf(params: object, body: unknown): object {
  const given = Object(body)
  const ids = ['sessionId', 'processId'].filter((name) => Object.hasOwn(given, name) && isShort(given[name]))
  return { ...Object.fromEntries(ids.map((name) => [name, given[name]])), ...params }
}

function isShort(id: unknown): boolean {
  return typeof id === 'string' && id.length <= MOST_ID_CHARACTERS
}
