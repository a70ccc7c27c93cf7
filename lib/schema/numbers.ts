/**
 * Readers for numbers: times in milliseconds and sizes in bytes. No conversion from strings, no NaN, no wrapping.
 */
import { OptionError } from '../base/errors.js'
import { describe } from './read.js'

/** The longest time that timers support: 2^31-1 ms, about 24.8 days. */
export const MAX_MILLISECONDS = 2_147_483_647

const SECONDS = '; 10 seconds are 10000'
/** An example of a size in bytes, for messages. */
export const GIBIBYTE = '; 1 GiB is 1073741824'

/** Numbers have no units: text with one needs an example. */
function forText(value: unknown, example: string): string {
  return typeof value === 'string' ? example : ''
}

/** Milliseconds from 0 to MAX_MILLISECONDS. Fractions are rounded up, so that 0.5 does not become 0, which means none. */
export function milliseconds(value: unknown, name: string): number {
  if (typeof value === 'number' && value >= 0 && value <= MAX_MILLISECONDS) return Math.ceil(value)
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be a number of milliseconds from 0 to ${MAX_MILLISECONDS}, not ${describe(value)}${forText(value, SECONDS)}`,
  )
}

/** A whole number of bytes from 0 to Number.MAX_SAFE_INTEGER. */
export function byteCount(value: unknown, name: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be a whole number of bytes from 0 to ${Number.MAX_SAFE_INTEGER}, not ${describe(value)}${forText(value, GIBIBYTE)}`,
  )
}

/** Milliseconds between two attempts: 1 to MAX_MILLISECONDS, rounded up. */
export function interval(value: unknown, name: string): number {
  if (typeof value === 'number' && value > 0 && value <= MAX_MILLISECONDS) return Math.ceil(value)
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be a number of milliseconds from 1 to ${MAX_MILLISECONDS}, not ${describe(value)}${forText(value, SECONDS)}`,
  )
}

/** A reader for whole numbers within bounds. `example` is the remedy for text with a unit. */
export function wholeNumber(
  least: number,
  most: number,
  example = '',
): (value: unknown, name: string) => number {
  return (value, name) => {
    if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value
    throw new OptionError(
      'INVALID_OPTION',
      `${name} must be a whole number from ${least} to ${most}, not ${describe(value)}${forText(value, example)}`,
    )
  }
}
