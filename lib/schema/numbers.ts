/**
 * Kinds of numbers: times in milliseconds, sizes in bytes, counts. No conversion from strings, no NaN, no wrapping.
 */
import { invalidOption } from '../base/errors.js'
import { mapped } from './constructors.js'
import type { Kind, SimpleSchema } from './kind.js'
import { describe } from './read.js'

/** The longest time that timers support: 2^31-1 ms, about 24.8 days. */
export const MAX_MILLISECONDS = 2_147_483_647
/** The longest time that timers support, in seconds. */
const MAX_SECONDS = 2_147_483

/** Numbers have no units: text with one needs an example. */
const SECONDS = '; 10 seconds are 10000'
const GIBIBYTE = '; 1 GiB is 1073741824'

/** A number within the bounds of its JSON form. `remedy` is added to the message for text. */
export function number(schema: SimpleSchema, rule: string, bounds: string, remedy = ''): Kind<number> {
  const { type, minimum = -Infinity, exclusiveMinimum = -Infinity, maximum = Number.MAX_VALUE } = schema
  return {
    read(value, name) {
      const fits =
        typeof value === 'number' &&
        value >= minimum &&
        value > exclusiveMinimum &&
        value <= maximum &&
        (type === 'number' || Number.isInteger(value))
      if (fits) return value
      const example = typeof value === 'string' ? remedy : ''
      throw invalidOption(`${name} ${rule}, not ${describe(value)}${example}`)
    },
    json: { schema },
    bounds,
  }
}

/** A time from `least` ms. Fractions are rounded up, so that 0.5 does not become 0, which means none. */
function time(least: number, from: Pick<SimpleSchema, 'minimum' | 'exclusiveMinimum'>): Kind<number> {
  const range = `${least} to ${MAX_MILLISECONDS}`
  const schema = { type: 'number', ...from, maximum: MAX_MILLISECONDS } as const
  const rule = `must be a number of milliseconds from ${range}`
  return mapped(number(schema, rule, `${range} ms`, SECONDS), Math.ceil)
}

export const milliseconds = time(0, { minimum: 0 })

/** Milliseconds between two attempts. */
export const positiveMilliseconds = time(1, { exclusiveMinimum: 0 })

export const seconds = number(
  { type: 'number', exclusiveMinimum: 0, maximum: MAX_SECONDS },
  `must be a number of seconds greater than 0 and at most ${MAX_SECONDS}`,
  `more than 0, up to ${MAX_SECONDS} s`,
)

export const bytes = number(
  { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER },
  `must be a whole number of bytes from 0 to ${Number.MAX_SAFE_INTEGER}`,
  '0 to Number.MAX_SAFE_INTEGER bytes',
  GIBIBYTE,
)

/** The number of a line. A negative one counts from the end. */
export const lineNumber = mapped(
  number(
    { type: 'integer', minimum: -Number.MAX_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER },
    'must be the number of a line, from 1, or a negative number, which counts from the end',
    'a whole number other than 0',
  ),
  (value, name) => {
    if (value !== 0) return value
    throw invalidOption(`${name} must not be 0: the first line is 1, and the last is -1`)
  },
)

/** A number of processors; may be a fraction. */
export const processors = number(
  { type: 'number', exclusiveMinimum: 0 },
  'must be a number of processors greater than 0',
  'more than 0',
)

/** A part of a whole. */
export const fraction = number(
  { type: 'number', minimum: 0, maximum: 1 },
  'must be a number from 0 to 1',
  '0 to 1',
)

/** A whole number within bounds. */
export function count(minimum: number, maximum: number, unit = ''): Kind<number> {
  const most = maximum === Number.MAX_SAFE_INTEGER ? 'Number.MAX_SAFE_INTEGER' : maximum
  return number(
    { type: 'integer', minimum, maximum },
    `must be a whole number from ${minimum} to ${maximum}`,
    `${minimum} to ${most}${unit && ` ${unit}`}`,
    unit === 'bytes' ? GIBIBYTE : '',
  )
}
