/**
 * Schemas of what is waited for.
 */
import { z } from '@hono/zod-openapi'
import { OptionError } from '../../errors'

/** Text that a line contains, or a regular expression. */
export const patternSchema = z
  .union([z.string(), z.strictObject({ source: z.string(), flags: z.string() })])
  .openapi('Pattern')

export function patternOf(pattern: z.output<typeof patternSchema>): string | RegExp {
  if (typeof pattern === 'string') return pattern
  try {
    return new RegExp(pattern.source, pattern.flags)
  } catch (cause) {
    throw new OptionError('INVALID_OPTION', `pattern is no regular expression: ${(cause as Error).message}`)
  }
}

const statusRange = z.strictObject({ min: z.number().optional(), max: z.number().optional() })

export const portOptionsSchema = z.strictObject({
  mode: z.enum(['http', 'tcp']).optional(),
  path: z.string().optional(),
  status: z.union([z.number(), statusRange]).optional(),
  interval: z.number().optional(),
})
