/** Readers for values that only processes and services have. */
import { OptionError } from '../base/errors.js'
import { type CheckedInput, commandInput } from './input.js'
import { describe } from './read.js'

/** Input of a command, or 'pipe': it stays open, for `write`. */
export function processInput(value: unknown, name: string): CheckedInput | 'pipe' {
  return value === 'pipe' ? value : commandInput(value, name)
}

/** A service may be started again, which must find its input where it was. */
export function repeatableInput(value: unknown, name: string): Uint8Array | 'pipe' {
  const input = processInput(value, name)
  if (input === 'pipe' || input instanceof Uint8Array) return input
  throw new OptionError('INVALID_OPTION', `${name} of a service must be a string, a Uint8Array or 'pipe'`)
}

export function restartPolicy(value: unknown, name: string): 'never' | 'on-failure' {
  if (value === 'never' || value === 'on-failure') return value
  throw new OptionError('INVALID_OPTION', `${name} must be 'never' or 'on-failure', not ${describe(value)}`)
}
