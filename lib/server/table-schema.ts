/**
 * The schema of a call's body, from its table of options.
 *
 * zod checks the type of a value. The bounds are in the document only: nacre checks them in the same place for every
 * caller. A value of the wrong type has the message of that check, too.
 */
import { z } from '@hono/zod-openapi'
import { OptionError } from '../base/errors.js'
import { sendable } from '../protocol/codec.js'
import type { JsonSchema, OptionTable, Reader } from '../schema/kind.js'
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
