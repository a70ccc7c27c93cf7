/**
 * The conditions that requests can wait for.
 */
import type { z } from '@hono/zod-openapi'
import { OptionError } from '../../base/errors.js'
import type { patternSchema } from '../schemas.js'

export function patternOf(pattern: z.output<typeof patternSchema>): string | RegExp {
  if (typeof pattern === 'string') return pattern
  try {
    return new RegExp(pattern.source, pattern.flags)
  } catch (cause) {
    throw new OptionError(
      'INVALID_OPTION',
      `pattern is not a regular expression: ${(cause as Error).message}`,
    )
  }
}
