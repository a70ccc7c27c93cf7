/**
 * Reader for session ids. An id can become a file name, so it must not be able to name a path.
 */
import { OptionError } from '../base/errors.js'
import { describe } from './read.js'

/** The form of an id, for the OpenAPI document too. */
export const ID = /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}$/

/** 1 to 128 characters of A-Z a-z 0-9 . _ - but neither '.' nor '..'. */
export function identifier(value: unknown, name: string): string {
  if (typeof value === 'string' && ID.test(value)) return value
  throw new OptionError(
    'INVALID_ID',
    `${name} must be 1 to 128 characters of A-Z a-z 0-9 . _ - and not '.' or '..', not ${describe(value)}`,
  )
}
