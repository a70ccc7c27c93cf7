/**
 * The OpenAPI document: the routes with the schemas of their kinds and replies.
 */
import type { kinds } from 'nacre/internal'
import { owns, protocol, replies } from 'nacre/internal/server'
import { STATUSES } from './failure.js'
import { paramsOf } from './parameters.js'
import type { AnyRoute } from './route.js'
import { texts } from './texts.js'

const HEAD = {
  openapi: '3.1.0',
  info: {
    title: 'nacre',
    version: '1',
    description:
      'Shell sessions, processes and durable jobs over HTTP. docs/http.md of nacre describes this API.',
  },
  security: [{ bearer: [] }, { header: [] }],
}

const securitySchemes = {
  bearer: { type: 'http', scheme: 'bearer' },
  header: { type: 'apiKey', in: 'header', name: 'X-Nacre-Token' },
}

const error = replies.reply(
  {
    code: replies.text,
    message: replies.text,
    context: { schema: { type: 'object' } },
    httpStatus: { schema: { type: 'integer' } },
    timestamp: replies.text,
  },
  'Error',
)

const BYTES = { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } }

/** Some tools take the schema for that of the whole text, others for that of one event: it restricts neither. */
const EVENTS = { description: 'server-sent events; the data of each is JSON' }

/** The options of a public interface, each with its comment. */
export function described<T extends kinds.OptionTable>(table: T): T {
  const options = protocol
    .sendable(table)
    .map(([name, option]) => [name, { ...option, description: textOf(table, name) }])
  return Object.fromEntries(options)
}

function textOf(table: kinds.OptionTable, name: string): string | undefined {
  return texts.get(table)?.[name]
}

/** A route, and its group in the document. */
export type TaggedRoute = AnyRoute & { tag: string }

export function documentOf(routes: readonly TaggedRoute[]): object {
  const schemas: Record<string, object> = {}
  const paths: Record<string, Record<string, object>> = {}
  for (const route of routes) {
    paths[route.path] ??= {}
    Object.assign(paths[route.path] as object, { [route.method.toLowerCase()]: operationOf(route, schemas) })
  }
  return { ...HEAD, components: { schemas, securitySchemes }, paths }
}

/** `schemas`: the components, to which those of the route are added. */
function operationOf(route: TaggedRoute, schemas: Record<string, object>): object {
  const { summary, tag, path, query, body, upload, isOpen, method, errors = [] } = route
  const parameters = [
    ...parametersOf('path', paramsOf(path), schemas),
    ...parametersOf('query', query, schemas),
  ]
  const json = (typed: kinds.Typed) => ({ 'application/json': { schema: schemaOf(typed, schemas) } })
  const content = upload ? BYTES : body && json({ schema: body })
  const refusal = (...codes: string[]) => ({
    description: `an error: ${codes.join(', ')}`,
    content: json(error),
  })
  const unprocessed = errors.filter((code) => STATUSES[code] === 422)
  return {
    summary,
    tags: [tag],
    ...(isOpen && { security: [] }),
    ...(parameters.length > 0 && { parameters }),
    ...(content && { requestBody: { required: true, content } }),
    responses: {
      ...successOf(route, json),
      // Statuses that clients handle apart from other errors: another call has the number, and the server takes no call now.
      ...(method !== 'GET' && { 422: refusal('CALL_MISMATCH', ...unprocessed) }),
      503: refusal('OVERLOADED', 'SHUTTING_DOWN', 'ABORT_ERR'),
      default: refusal('VALIDATION_FAILED', ...errors),
    },
  }
}

function successOf({ reply, method }: AnyRoute, json: (typed: kinds.Typed) => object): object {
  if (reply === 'socket') return { 101: { description: 'a WebSocket' } }
  if (reply === 'events')
    return { 200: { description: 'events', content: { 'text/event-stream': { schema: EVENTS } } } }
  if (reply === 'text')
    return { 200: { description: 'the reply', content: { 'text/plain': { schema: { type: 'string' } } } } }
  if (reply !== 'bytes') return { 200: { description: 'the reply', content: json(reply) } }
  const whole = { 200: { description: 'the bytes', content: BYTES } }
  if (method !== 'GET') return whole
  return {
    ...whole,
    206: { description: 'the range of bytes', content: BYTES },
    416: { description: 'no such range' },
  }
}

function parametersOf(
  place: string,
  shape: kinds.OptionsSchema | undefined,
  schemas: Record<string, object>,
): object[] {
  if (shape === undefined) return []
  return protocol.sendable(shape.options).map(([name, { description, json }]) => ({
    schema: schemaOf({ ...json, description }, schemas),
    required: shape.required.includes(name),
    ...(description !== undefined && { description }),
    ...{ name, in: place },
  }))
}

/** The schema of a request, a reply, or a member of one. */
export function schemaOf({ schema, description }: kinds.Typed, schemas: Record<string, object>): object {
  const own = namedOf(schema, schemas)
  if (description === undefined) return own
  return '$ref' in own ? { allOf: [own, { description }] } : { ...own, description }
}

function namedOf({ name, ...schema }: kinds.Schema, schemas: Record<string, object>): object {
  if (name === undefined) return typeOf(schema, schemas)
  schemas[name] ??= typeOf(schema, schemas)
  return { $ref: `#/components/schemas/${name}` }
}

function typeOf(schema: kinds.Schema, schemas: Record<string, object>): object {
  if (owns(schema, 'items')) return { type: 'array', items: schemaOf(schema.items, schemas) }
  if (owns(schema, 'anyOf')) return { anyOf: schema.anyOf.map((one) => schemaOf(one, schemas)) }
  if (owns(schema, 'nullable')) {
    const own = schemaOf(schema.nullable, schemas)
    return 'type' in own ? { ...own, type: [own.type, 'null'] } : { anyOf: [own, { type: 'null' }] }
  }
  if (owns(schema, 'values'))
    return { type: 'object', additionalProperties: schemaOf(schema.values.json, schemas) }
  if (owns(schema, 'options')) {
    const { options, required, isOpen } = schema
    const properties = protocol.sendable(options).map(([name, { json, default: value, description }]) => {
      const about = { ...json, description: description ?? textOf(options, name) }
      return [name, { ...schemaOf(about, schemas), ...(value !== undefined && { default: value }) }]
    })
    return objectOf(properties, required, isOpen ? {} : { additionalProperties: false })
  }
  if (owns(schema, 'isAny')) return {}
  if (!owns(schema, 'properties')) return schema
  const members = Object.entries(schema.properties).map(([key, field]) => ({ name: key, ...field }))
  const required = members.filter(({ isOptional }) => !isOptional).map(({ name }) => name)
  return objectOf(
    members.map((field) => [field.name, schemaOf(field, schemas)]),
    required,
  )
}

function objectOf(properties: unknown[][], required: readonly string[], rest: object = {}): object {
  const all = Object.fromEntries(properties as Array<[string, object]>)
  return { type: 'object', properties: all, ...(required.length > 0 && { required }), ...rest }
}
