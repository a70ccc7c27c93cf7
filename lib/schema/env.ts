/**
 * Reader for environment changes.
 *
 * At the boundary, an environment is two lists of equal length, names and values, where null unsets.
 */
import { OptionError } from '../base/errors.js'
import { describe, quote, readEntries } from './read.js'

export interface EnvLists {
  names: string[]
  values: Array<string | null>
}

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/

/** Reads an object of variables. Names must be assignable in bash; a value is a string without NUL, or undefined to unset. */
export function envChanges(value: unknown, name: string): EnvLists {
  const lists: EnvLists = { names: [], values: [] }
  for (const [key, item] of readEntries(value, name)) {
    if (!isVariableName(key)) {
      throw new OptionError(
        'INVALID_ENV_NAME',
        `${name} has the name ${quote(key)}, which does not match ${NAME.source}`,
      )
    }
    lists.names.push(key)
    lists.values.push(variable(item, `${name}.${key}`))
  }
  return lists
}

/** Whether bash can assign a variable of this name. */
export function isVariableName(name: string): boolean {
  return NAME.test(name)
}

function variable(value: unknown, name: string): string | null {
  if (value === undefined) return null
  if (typeof value !== 'string') {
    throw new OptionError('INVALID_OPTION', `${name} must be a string or undefined, not ${describe(value)}`)
  }
  if (value.includes('\0'))
    throw new OptionError('INVALID_OPTION', `${name} must not contain a NUL character`)
  return value
}
