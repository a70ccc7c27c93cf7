/**
 * Both kinds of signal: those sent to processes, and the AbortSignal.
 */
import { MAX_SIGNAL, signalNumber } from '../base/signals.js'
import type { Signal } from '../base/types.js'
import { local, oneOf, text } from './constructors.js'
import type { Kind } from './kind.js'
import { refusal } from './read.js'
import { hasMethod } from './values.js'

/** A signal's name or number as a number from 1 to 64. Never 0, which only checks whether a process exists. */
export const killSignal: Kind<Signal, number> = {
  read(value, name) {
    if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= MAX_SIGNAL)
      return value
    const number = typeof value === 'string' ? signalNumber(value) : undefined
    if (number !== undefined) return number
    const rule = `must be the name of a signal like 'SIGTERM' or a number from 1 to ${MAX_SIGNAL}`
    throw refusal(name, rule, value)
  },
  json: {
    schema: {
      anyOf: [
        { schema: { type: 'string' } },
        { schema: { type: 'integer', minimum: 1, maximum: MAX_SIGNAL } },
      ],
    },
  },
  bounds: `a name like SIGTERM, or 1 to ${MAX_SIGNAL}`,
}

/** Why something is killed. */
export const killReasonText = text(
  (reason) => reason.length >= 1 && reason.length <= 1000,
  'must be 1 to 1000 characters',
)

/** Whose kill it is, over HTTP. */
export const killer = oneOf(['caller', 'abort'])

/** An AbortSignal, recognized by its shape: signals of other realms or libraries are not instances of the global class. */
export const abortSignal = local<AbortSignal>(isAbortSignal, 'must be an AbortSignal')

function isAbortSignal(value: unknown): boolean {
  return (
    typeof value === 'object' &&
    typeof (value as Partial<AbortSignal> | null)?.aborted === 'boolean' &&
    hasMethod(value, 'addEventListener') &&
    hasMethod(value, 'removeEventListener')
  )
}
