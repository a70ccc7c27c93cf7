/** Readers for values that only processes and services use. */
import { OptionError } from '../base/errors.js'
import { type CheckedInput, commandInput } from './input.js'
import { describe } from './read.js'

/** The input of a command, or 'pipe', which keeps the input open for `write`. */
export function processInput(value: unknown, name: string): CheckedInput | 'pipe' {
  return value === 'pipe' ? value : commandInput(value, name)
}

/** An input that each restart of a service can read again. */
export function repeatableInput(value: unknown, name: string): Uint8Array | 'pipe' {
  const input = processInput(value, name)
  if (input === 'pipe' || input instanceof Uint8Array) return input
  throw new OptionError('INVALID_OPTION', `${name} of a service must be a string, a Uint8Array or 'pipe'`)
}

export function restartPolicy(value: unknown, name: string): 'never' | 'on-failure' {
  if (value === 'never' || value === 'on-failure') return value
  throw new OptionError('INVALID_OPTION', `${name} must be 'never' or 'on-failure', not ${describe(value)}`)
}
