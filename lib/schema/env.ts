/**
 * Kinds of environment changes.
 *
 * At the boundary, an environment is two lists of equal length, names and values, where null unsets. In JSON it is an
 * object, where null unsets.
 */
import { invalidOption, OptionError } from '../base/errors.js'
import type { EnvChanges } from '../base/types.js'
import type { Kind } from './kind.js'
import { quote, readEntries, refusal } from './read.js'

export interface EnvLists {
  names: string[]
  values: Array<string | null>
}

/** The names that bash can assign. */
export const VARIABLE_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/

/** Reads an object of variables. Names must be assignable in bash; a value is a string without NUL, or undefined to unset. */
export function envChanges(value: unknown, name: string): EnvLists {
  const lists: EnvLists = { names: [], values: [] }
  for (const [key, item] of readEntries(value, name, { rule: "must be an object like { NAME: 'value' }" })) {
    if (!VARIABLE_NAME.test(key)) {
      throw new OptionError(
        'INVALID_ENV_NAME',
        `${name} has the name ${quote(key)}, which bash cannot assign: a name has letters, digits and _, and begins with no digit`,
      )
    }
    lists.names.push(key)
    lists.values.push(variable(item, `${name}.${key}`))
  }
  return lists
}

function variable(value: unknown, name: string): string | null {
  if (value === undefined) return null
  if (typeof value !== 'string') throw refusal(name, 'must be a string or undefined', value)
  if (value.includes('\0')) throw invalidOption(`${name} must not contain a NUL character`)
  return value
}

export function encodeEnv(env: EnvLists): Record<string, string | null> {
  return Object.fromEntries(env.names.map((name, index) => [name, env.values[index] ?? null]))
}

/** A variable in JSON. */
const variableJson: Kind<string | null> & { json: object } = {
  read: (value, name) => variable(value ?? undefined, name),
  json: {
    schema: { nullable: { schema: { type: 'string' } } },
    rule: 'must be a string, or null to unset the variable',
  },
  bounds: 'a string, or null',
}

export const env: Kind<EnvChanges, EnvLists> & { json: object } = {
  read: envChanges,
  json: {
    schema: { name: 'Env', values: variableJson },
    rule: 'must be an object of variables',
    encode: encodeEnv,
    decode: (json: Record<string, string | null>) =>
      Object.fromEntries(Object.entries(json).map(([name, value]) => [name, value ?? undefined])),
  },
  bounds: 'strings by name; undefined unsets',
}

/** The public type, in which null unsets, too. */
type ContainerVariables = Record<string, string | null | undefined>

export type Variables = Record<string, string | undefined>

/** Variables of a session in a container, on top of this process's environment. */
export const sessionVariables: Kind<ContainerVariables, Variables> = {
  read(value, name) {
    const found = readEntries(value, name).map(([key, item]): [string, unknown] => {
      if (!VARIABLE_NAME.test(key))
        throw new OptionError('INVALID_ENV_NAME', `Invalid environment variable name: ${key}`)
      return [key, item ?? undefined]
    })
    const checked = Object.fromEntries(found)
    envChanges(checked, name)
    return checked as Variables
  },
  bounds: 'strings by name; undefined and null unset',
}

/** Variables of a command in a container, which sees the session's value of those that are skipped. */
export const commandVariables: Kind<ContainerVariables, Variables> = {
  read: (value, name) =>
    Object.fromEntries(
      Object.entries(sessionVariables.read(value, name)).filter(([, variable]) => variable !== undefined),
    ),
  bounds: 'strings by name; undefined and null are skipped',
}
