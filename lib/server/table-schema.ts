/**
 * Schemas from tables: of a call's body, and of its reply.
 *
 * zod checks the type of an option. The bounds are in the document only: nacre checks them in the same place for every
 * caller. A value of the wrong type has the message of that check, too.
 */
import { z } from '@hono/zod-openapi'
import { OptionError } from '../base/errors.js'
import { sendable } from '../protocol/codec.js'
import type { JsonSchema, OptionTable, Reader } from '../schema/kind.js'
import type { AnyField, FieldSchema } from '../schema/reply.js'
import { commandSchema, dataSchema, envSchema, patternSchema, strictObject, stringList } from './schemas.js'
import { texts } from './texts.js'

const named = {
  Command: commandSchema,
  Data: dataSchema,
  Env: envSchema,
  Pattern: patternSchema,
}

/** The properties of a body, all optional. */
export function shapeOf(table: OptionTable): Record<string, z.ZodType> {
  return Object.fromEntries(
    sendable(table).map(([name, { json, read, default: value }]) => {
      const about = { description: texts.get(table)?.[name], ...(value !== undefined && { default: value }) }
      return [name, zodOf(json.schema, refusalOf(read)).optional().openapi(about)]
    }),
  )
}

/** Makes the message for a value of the wrong type; zod's own if the check has none. */
type RefusalText = (issue: { input?: unknown }) => string | undefined

function refusalOf(read: Reader<unknown>): RefusalText {
  return ({ input }) => {
    try {
      read(input, '')
    } catch (error) {
      if (error instanceof OptionError) return error.message.trim()
    }
    return undefined
  }
}

function zodOf(schema: JsonSchema, error?: RefusalText): z.ZodType {
  switch (schema.type) {
    case 'number':
    case 'integer':
      return z.number({ error }).openapi({ ...schema })
    case 'string':
      return z.string({ error }).openapi({ ...schema })
    case 'boolean':
      return z.boolean({ error })
    case 'enum':
      return z.enum(schema.values, { error })
    case 'named':
      return named[schema.name]
    case 'object':
      return strictObject(shapeOf(schema.table))
    case 'strings':
      return stringList(error)
    case 'either':
      return z.union(
        schema.of.map((one) => zodOf(one)),
        { error },
      )
  }
}

/** Adds a component to the document. */
export type AddComponent = (name: string, schema: object) => void

/** The schema of a reply, or of a member of one, in the OpenAPI document. */
export function schemaOf(
  { schema, description }: Pick<AnyField, 'schema' | 'description'>,
  add: AddComponent,
): object {
  const own = typeOf(schema, add)
  if (description === undefined) return own
  return '$ref' in own ? { allOf: [own, { description }] } : { ...own, description }
}

function typeOf(schema: FieldSchema, add: AddComponent): object {
  if ('items' in schema) return { type: 'array', items: schemaOf(schema.items, add) }
  if ('anyOf' in schema) return { anyOf: schema.anyOf.map((one) => schemaOf(one, add)) }
  if ('nullable' in schema) {
    const own = schemaOf(schema.nullable, add)
    return 'type' in own ? { ...own, type: [own.type, 'null'] } : { anyOf: [own, { type: 'null' }] }
  }
  if (!('properties' in schema)) return schema
  const members = Object.entries(schema.properties).map(([key, field]) => ({ name: key, ...field }))
  const required = members.filter(({ isOptional }) => !isOptional).map(({ name }) => name)
  const object = {
    type: 'object',
    properties: Object.fromEntries(members.map((field) => [field.name, schemaOf(field, add)])),
    ...(required.length > 0 && { required }),
  }
  if (schema.name === undefined) return object
  add(schema.name, object)
  return { $ref: `#/components/schemas/${schema.name}` }
}
