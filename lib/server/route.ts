/**
 * The declaration of routes, and the code around their handlers: the one place where requests become calls.
 *
 * A route is data: the OpenAPI document is made from the same schemas that bodies are checked against.
 */
import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { ownOnly, withoutPrototypes } from '../base/own.js'
import { report } from '../base/report.js'
import type { Logger } from '../public/index.js'
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
  STATUSES,
} from './failure.js'
import { bodyOf, cut } from './file-bodies.js'
import { firstOf } from './lifetime.js'
import { requireJson } from './media-type.js'
import { patientResponse } from './patient.js'
import { cursorOf, dataSchema, envelopeSchema, MOST_FAULTS, statusSchema } from './schemas.js'
import { sendLater } from './sent.js'
import type { SocketSession } from './socket-session.js'
import { EVENT_HEADERS, type EventStream, eventResponse } from './sse.js'
import { type AddComponent, schemaOf } from './table-schema.js'
import { upgradeOf } from './upgrade.js'
import { encodeReply, type Sendable } from './wire.js'

type Schema = z.ZodType

const BYTES = z.string().openapi({ format: 'binary' })

/** Some tools take the schema for that of the whole text, others for that of one event: it restricts neither. */
const EVENTS = z.unknown().openapi({ description: 'server-sent events; the data of each is JSON' })
type Output<S> = S extends Schema ? z.output<S> : undefined

/** A checked request. */
export interface Call<P, Q, B> {
  params: Output<P>
  query: Output<Q>
  body: Output<B>
  /** Aborted when the client disconnects or the server ends. */
  signal: AbortSignal
  /** Where a client resumes a stream: the id of the last event that it has received. */
  lastEventId: string | undefined
  /** HEAD for a GET without its body. */
  method: string
  header(name: string): string | undefined
  /** The body of an upload. */
  upload: AsyncIterable<Uint8Array> | undefined
}

type Reply<T> = Sendable<T> | 'bytes' | 'events' | 'text' | 'socket'

export interface Route<P, Q, B, T> {
  method: 'get' | 'post' | 'put' | 'delete'
  path: string
  summary: string
  /** The group in the OpenAPI document. */
  tag: string
  params?: P
  query?: Q
  body?: B
  /** The body is a file, and streamed. */
  upload?: boolean
  /** The table of the reply; 'bytes' for the content of a file, 'events' for a stream of events, 'socket' for a WebSocket. */
  reply: Reply<T>
  /** The codes of errors other than those of every route. */
  errors?: string[]
  /** It needs no token. */
  isOpen?: boolean
  /** It may take longer than clients and proxies wait for a response. */
  patient?: boolean
  handle(call: Call<P, Q, B>): Promise<NoInfer<T>>
}

type AnyRoute = Route<Schema, Schema, Schema, object>

export type Define = <P extends Schema, Q extends Schema, B extends Schema, T extends object>(
  route: Route<P, Q, B, T>,
) => void

/** Returns a function that adds a route to the app. */
export function definer(app: OpenAPIHono, server: ServerContext): Define {
  // Replies refer to them by name.
  app.openAPIRegistry.register('Data', dataSchema)
  app.openAPIRegistry.register('ProcessStatus', statusSchema)
  const components = new Set<string>()
  const addComponent = (name: string, schema: object) => {
    if (!components.has(name)) app.openAPIRegistry.registerComponent('schemas', name, schema)
    components.add(name)
  }
  return (route) => {
    const { method, path, summary, tag, params, query, body, upload } = route
    const request = {
      ...(params && { params }),
      ...(query && { query: ofOwnProperties(query) }),
      ...(body && { body: { required: true, content: { 'application/json': { schema: body } } } }),
      ...(upload && { body: { required: true, content: { 'application/octet-stream': { schema: BYTES } } } }),
    }
    const config = createRoute({
      method,
      path,
      summary,
      tags: [tag],
      ...(route.isOpen && { security: [] }),
      request: request as object,
      ...(body && { middleware: requireJson }),
      responses: {
        ...successOf(route.reply, addComponent),
        ...refusalsOf(route),
        default: {
          description: `an error: ${['VALIDATION_FAILED', ...(route.errors ?? [])].join(', ')}`,
          content: { 'application/json': { schema: envelopeSchema } },
        },
      },
    })
    const handler = (c: Context) => {
      const valid = c.req as unknown as { valid(target: string): unknown }
      const call = {
        params: params && withoutPrototypes(valid.valid('param')),
        query: query && withoutPrototypes(valid.valid('query')),
        body: body && withoutPrototypes(valid.valid('json')),
        lastEventId: c.req.header('last-event-id'),
        method: c.req.method,
        header: (name: string) => c.req.header(name),
        upload: upload ? bodyOf(c.req.raw, c.env) : undefined,
      }
      return answer(server, route as unknown as AnyRoute, c, call as never)
    }
    app.openapi(config, handler as never, refuseInvalid as never)
  }
}

/** The schema of a query. Hono makes an object of it, whose inherited properties zod would take for parameters. */
function ofOwnProperties<S extends Schema>(schema: S): S {
  return Object.create(schema, {
    safeParseAsync: { value: (given: object) => schema.safeParseAsync(ownOnly(given)) },
  })
}

/** Calls the handler, and makes a response of its result or its error. */
async function answer(
  server: ServerContext,
  route: AnyRoute,
  c: Context,
  given: Omit<Call<Schema, Schema, Schema>, 'signal'>,
): Promise<Response> {
  const gone = c.req.raw.signal
  // The body may have arrived only now. What is started after the end of the server would outlive it.
  if (server.closing.aborted) throw new Refusal('SHUTTING_DOWN', SHUTTING_DOWN)
  const asked = { method: given.method, url: c.req.url, body: given.body }
  const kept = route.method === 'get' ? undefined : server.callers.callOf(c.req.raw.headers, asked)
  const { signal, release } = kept
    ? { signal: kept.signal, release: kept.attach(gone) }
    : firstOf([gone, server.closing])
  const subject = subjectOf(given)
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
  if (route.patient) return patientResponse(settled, server.heartbeat, end)
  return settled.finally(end)
}

/** A reply is one string of JSON, and a string has a greatest length. */
function replyOf(reply: Reply<object>, value: object): Response {
  if (typeof reply === 'string') return value as Response
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
  const { timestamp } = sent
  return dialect === 'v1'
    ? { type: 'error', timestamp, error: sent }
    : { type: 'error', error: sent.message, code: sent.code, timestamp, ...subject }
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
function subjectOf({ params, body }: { params?: unknown; body?: unknown }): object {
  const { sessionId, processId } = (body ?? {}) as Record<string, unknown>
  return {
    ...(isShort(sessionId) && { sessionId }),
    ...(isShort(processId) && { processId }),
    ...(params as object | undefined),
  }
}

function isShort(id: unknown): boolean {
  return typeof id === 'string' && id.length <= MOST_ID_CHARACTERS
}

/** What zod says about a property that is not there. */
const MISSING = /^Invalid input: expected (\w+), received undefined$/

function refuseInvalid(checked: { success: boolean; target: string; error?: z.ZodError }): void {
  if (checked.success || checked.error === undefined) return
  const issues = checked.error.issues.slice(0, MOST_FAULTS).map(({ path, message }) => ({
    path: short(path.join('.')),
    message: message.replace(MISSING, 'is missing; it must be a value of the type $1'),
  }))
  const whole = checked.target === 'json' ? 'the body' : `the ${checked.target}`
  const text = issues.map(({ path, message }) => `${path === '' ? whole : path}: ${message}`).join('; ')
  throw new Refusal('VALIDATION_FAILED', text, { issues })
}

/** A name in a request can be as long as its body. */
function short(name: string): string {
  return name.length > MOST_ID_CHARACTERS ? `${name.slice(0, MOST_ID_CHARACTERS)}...` : name
}

function successOf(
  reply: Reply<never>,
  add: AddComponent,
): Record<number, { description: string; content?: object }> {
  if (reply === 'socket') return { 101: { description: 'a WebSocket' } }
  const content = contentOf(reply, add)
  if (reply === 'bytes')
    return {
      200: { description: 'the bytes', content },
      206: { description: 'the range of bytes', content },
      416: { description: 'no such range' },
    }
  return { 200: { description: reply === 'events' ? 'events' : 'the reply', content } }
}

/** Statuses that clients handle apart from other errors: another call has the number, and the server takes no call now. */
function refusalsOf({ method, errors = [] }: Pick<AnyRoute, 'method' | 'errors'>) {
  const content = { 'application/json': { schema: envelopeSchema } }
  const unprocessed = ['CALL_MISMATCH', ...errors.filter((code) => STATUSES[code] === 422)]
  return {
    ...(method !== 'get' && { 422: { description: `an error: ${unprocessed.join(', ')}`, content } }),
    503: { description: 'an error: OVERLOADED, SHUTTING_DOWN, ABORT_ERR', content },
  }
}

function contentOf(
  reply: Exclude<Reply<never>, 'socket'>,
  add: AddComponent,
): Record<string, { schema: Schema | object }> {
  if (reply === 'bytes') return { 'application/octet-stream': { schema: BYTES } }
  if (reply === 'events') return { 'text/event-stream': { schema: EVENTS } }
  if (reply === 'text') return { 'text/plain': { schema: z.string() } }
  return { 'application/json': { schema: schemaOf(reply, add) } }
}
