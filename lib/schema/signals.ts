/**
 * Readers for both kinds of signal: those sent to processes, and the AbortSignal.
 */
import { OptionError } from '../base/errors.js'
import { MAX_SIGNAL, signalNumber } from '../base/signals.js'
import { describe } from './read.js'

/** A signal's name or number as a number from 1 to 64. Never 0, which only checks whether a process exists. */
export function processSignal(value: unknown, name: string): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= MAX_SIGNAL) return value
  const number = typeof value === 'string' ? signalNumber(value) : undefined
  if (number !== undefined) return number
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be the name of a signal like 'SIGTERM' or a number from 1 to ${MAX_SIGNAL}, not ${describe(value)}`,
  )
}

/** An AbortSignal, recognized by its shape: signals of other realms or libraries are not instances of the global class. */
export function abortSignal(value: unknown, name: string): AbortSignal {
  if (isAbortSignal(value)) return value
  throw new OptionError('INVALID_OPTION', `${name} must be an AbortSignal, not ${describe(value)}`)
}

function isAbortSignal(value: unknown): value is AbortSignal {
  const signal = value as Partial<AbortSignal> | null
  return (
    typeof signal === 'object' &&
    typeof signal?.aborted === 'boolean' &&
    typeof signal.addEventListener === 'function' &&
    typeof signal.removeEventListener === 'function'
  )
}
