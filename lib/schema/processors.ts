/** Reader for a number of processors. */
import { OptionError } from '../base/errors.js'
import { describe } from './read.js'

/** A number of processors above 0; may be a fraction. */
export function processors(value: unknown, name: string): number {
  if (typeof value === 'number' && value > 0 && Number.isFinite(value)) return value
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be a number of processors greater than 0, not ${describe(value)}`,
  )
}
