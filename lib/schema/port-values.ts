/** Readers for the options of a port check. */

import { OptionError } from '../base/errors.js'
import { wholeNumber } from './numbers.js'
import type { Kind } from './option.js'
import { describe, readGroup } from './read.js'

export interface StatusRange {
  min: number
  max: number
}

export function portMode(value: unknown, name: string): 'http' | 'tcp' {
  if (value === 'http' || value === 'tcp') return value
  throw new OptionError('INVALID_OPTION', `${name} must be 'http' or 'tcp', not ${describe(value)}`)
}

/** A path that is valid in a request line: it begins with a slash, and has no blanks or control characters. */
export function requestPath(value: unknown, name: string): string {
  if (typeof value === 'string' && /^\/[\x21-\x7e]*$/.test(value)) return value
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must begin with / and be of printable ASCII without blanks, not ${describe(value)}`,
  )
}

export const statusCode: Kind<number> = {
  read: wholeNumber(100, 599),
  json: { schema: { type: 'integer', minimum: 100, maximum: 599 } },
  bounds: '100 to 599',
}

/** One status, or a range from the first to the last. */
export function statusRange(value: unknown, name: string): StatusRange {
  if (typeof value === 'number') {
    const only = statusCode.read(value, name)
    return { min: only, max: only }
  }
  const range = { min: statusCode.read, max: statusCode.read }
  const { min = 100, max = 599 } = readGroup(range, value, name)
  if (min <= max) return { min, max }
  throw new OptionError('INVALID_OPTION', `${name} must have a min that is not above its max`)
}
