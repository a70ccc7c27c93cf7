/**
 * The schema of a call's body, from its table of options.
 *
 * zod checks the type of a value. The bounds are in the document only: nacre checks them in the same place for every
 * caller, so the messages are the same.
 */
import { z } from '@hono/zod-openapi'
import type { About, JsonSchema, OptionTable } from '../options/option.js'
import { sendable } from '../protocol/codec.js'
import {
  commandSchema,
  dataSchema,
  envSchema,
  patternSchema,
  strictObject,
  stringListSchema,
} from './schemas.js'

const named = {
  Command: commandSchema,
  Data: dataSchema,
  Env: envSchema,
  Pattern: patternSchema,
}

/** The properties of a body, all optional. */
export function shapeOf(table: OptionTable): Record<string, z.ZodType> {
  return Object.fromEntries(
    sendable(table).map(([name, { schema }]) => [
      name,
      zodOf(schema)
        .optional()
        .openapi(describe(table[name] as Partial<About>)),
    ]),
  )
}

function zodOf(schema: JsonSchema): z.ZodType {
  switch (schema.type) {
    case 'number':
    case 'integer':
      return z.number().openapi({ ...schema })
    case 'string':
      return z.string()
    case 'boolean':
      return z.boolean()
    case 'enum':
      return z.enum(schema.values)
    case 'named':
      return named[schema.name]
    case 'object':
      return strictObject(shapeOf(schema.table))
    case 'strings':
      return stringListSchema
    case 'either':
      return z.union(schema.of.map(zodOf))
  }
}

function describe({ doc, default: value, otherwise }: Partial<About>): object {
  const description = otherwise === undefined ? doc : `${doc} Default: ${otherwise}.`
  return { description, ...(value !== undefined && { default: value }) }
}
