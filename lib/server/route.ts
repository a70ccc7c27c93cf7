/**
 * How a route is declared, and what happens around its handler: the one place where requests become calls.
 *
 * A route is data: the OpenAPI document is made from the same schemas that bodies are checked against.
 */
import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi'
import type { Context } from 'hono'
import type { ServerContext } from './context.js'
import { type Dialect, dialectOf, envelope, isOurFault, Refusal } from './failure.js'
import { firstOf } from './lifetime.js'
import { requireJson } from './media-type.js'
import { patientResponse } from './patient.js'
import { envelopeSchema } from './schemas.js'
import { type EventStream, eventResponse } from './sse.js'

type Schema = z.ZodType
type Output<S> = S extends Schema ? z.output<S> : undefined

/** A checked request. */
export interface Call<P, Q, B> {
  params: Output<P>
  query: Output<Q>
  body: Output<B>
  /** Aborted when the client goes away or the server ends. */
  signal: AbortSignal
  /** Where a client comes back to a stream: the id of the last event that it has seen. */
  lastEventId: string | undefined
}

export interface Route<P, Q, B> {
  method: 'get' | 'post' | 'delete'
  path: string
  summary: string
  /** The group in the OpenAPI document. */
  tag: string
  params?: P
  query?: Q
  body?: B
  /** What the reply looks like; 'events' when it is a stream of them. */
  reply: Schema | 'events' | 'text'
  /** The codes of errors beside those that every route has. */
  errors?: string[]
  /** It may take longer than clients and proxies wait for a response. */
  patient?: boolean
  handle(call: Call<P, Q, B>): Promise<object>
}

export type Define = <P extends Schema, Q extends Schema, B extends Schema>(route: Route<P, Q, B>) => void

/** Gives the function that adds a route to the app. */
export function definer(app: OpenAPIHono, server: ServerContext): Define {
  return (route) => {
    const { method, path, summary, tag, params, query, body } = route
    const request = {
      ...(params && { params }),
      ...(query && { query }),
      ...(body && { body: { required: true, content: { 'application/json': { schema: body } } } }),
    }
    const config = createRoute({
      method,
      path,
      summary,
      tags: [tag],
      request: request as object,
      ...(body && { middleware: requireJson }),
      responses: {
        200: {
          description: route.reply === 'events' ? 'events' : 'the reply',
          content: contentOf(route.reply),
        },
        default: {
          description: `an error: ${['VALIDATION_FAILED', ...(route.errors ?? [])].join(', ')}`,
          content: { 'application/json': { schema: envelopeSchema } },
        },
      },
    })
    const handler = (c: Context) => {
      const valid = c.req as unknown as { valid(target: string): unknown }
      const call = {
        params: params && valid.valid('param'),
        query: query && valid.valid('query'),
        body: body && valid.valid('json'),
        lastEventId: c.req.header('last-event-id'),
      }
      return answer(server, route as unknown as Route<Schema, Schema, Schema>, c, call as never)
    }
    app.openapi(config, handler as never, refuseInvalid as never)
  }
}

/** Requests that are not over with their handlers: what is sent of the response comes later. */
const unfinished = new WeakMap<Request, { isOver: boolean; leave: () => void }>()

/** Whether the request goes on until its response has been sent; `leave` is then called at the end. */
export function leaveLater(c: Context, leave: () => void): boolean {
  const state = unfinished.get(c.req.raw)
  if (state === undefined || state.isOver) return false
  state.leave = leave
  return true
}

/** Calls the handler, and makes a response of what it gives or throws. */
async function answer(
  server: ServerContext,
  route: Route<Schema, Schema, Schema>,
  c: Context,
  given: Omit<Call<Schema, Schema, Schema>, 'signal'>,
): Promise<Response> {
  const { signal, release } = firstOf([c.req.raw.signal, server.closing])
  const subject = subjectOf(given)
  const dialect = dialectOf(c.req.path)
  const work = async () => route.handle({ ...given, signal })
  const state = { isOver: false, leave: () => {} }
  unfinished.set(c.req.raw, state)
  const end = () => {
    release()
    state.isOver = true
    state.leave()
  }
  if (route.reply === 'events') {
    try {
      const { source } = (await work()) as EventStream
      const failed = (error: unknown) => errorEvent(server, error, dialect, subject)
      return eventResponse(source, c.req.raw.signal, server.heartbeat, failed, end)
    } catch (error) {
      end()
      return errorResponse(server, error, dialect, subject)
    }
  }
  const settled = work().then(
    (reply) => (reply instanceof Response ? reply : Response.json(reply)),
    (error) => errorResponse(server, error, dialect, subject),
  )
  if (route.patient) return patientResponse(settled, server.heartbeat, end)
  return settled.finally(end)
}

/** The envelope as a response. What is the server's own fault goes to the logger as it is. */
export function errorResponse(
  server: Pick<ServerContext, 'logger' | 'metrics'>,
  error: unknown,
  dialect: Dialect,
  subject?: object,
): Response {
  if (isOurFault(error)) server.logger?.error(`a request failed: ${error}`)
  server.metrics.refusal()
  const body = envelope(error, dialect, subject)
  const headers = error instanceof Refusal ? error.headers : {}
  return Response.json(body, { status: body.httpStatus, headers })
}

/** The last event of a stream that fails while it is read. */
export function errorEvent(
  { logger }: Pick<ServerContext, 'logger'>,
  error: unknown,
  dialect: Dialect,
  subject?: object,
): object {
  if (isOurFault(error)) logger?.error(`a stream failed: ${error}`)
  const told = envelope(error, dialect, subject)
  const { timestamp } = told
  return dialect === 'v1'
    ? { type: 'error', timestamp, error: told }
    : { type: 'error', error: told.message, code: told.code, timestamp, ...subject }
}

/** The ids that a request names. */
function subjectOf({ params, body }: { params?: unknown; body?: unknown }): object {
  const { sessionId, processId } = (body ?? {}) as Record<string, unknown>
  return {
    ...(typeof sessionId === 'string' && { sessionId }),
    ...(typeof processId === 'string' && { processId }),
    ...(params as object | undefined),
  }
}

function refuseInvalid(checked: { success: boolean; target: string; error?: z.ZodError }): void {
  if (checked.success || checked.error === undefined) return
  const issues = checked.error.issues.map(({ path, message }) => ({ path: path.join('.'), message }))
  const whole = checked.target === 'json' ? 'the body' : `the ${checked.target}`
  const text = issues.map(({ path, message }) => `${path === '' ? whole : path}: ${message}`).join('; ')
  throw new Refusal('VALIDATION_FAILED', text, { issues })
}

function contentOf(reply: Schema | 'events' | 'text'): Record<string, { schema: Schema }> {
  if (reply === 'events') return { 'text/event-stream': { schema: z.string() } }
  if (reply === 'text') return { 'text/plain': { schema: z.string() } }
  return { 'application/json': { schema: reply } }
}
