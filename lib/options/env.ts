/**
 * Reader for environment changes, and the environment that a sandbox starts from.
 *
 * Environments cross the boundary as two lists of one length, names and values, where null unsets.
 */
import os from 'node:os'
import { OptionError } from '../errors'
import { describe, quote, readEntries } from './read'

export interface EnvLists {
  names: string[]
  values: Array<string | null>
}

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/

/** Where programs are looked up when neither the caller nor this process says so. */
const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** An object of variables. Names are what bash can assign; a value is a string without NUL, or undefined to unset. */
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

/** The complete environment of a sandbox: this process's, or the bare defaults, with the changes on top. */
export function completeEnv(
  changes: EnvLists | undefined,
  extend: boolean,
): { names: string[]; values: string[] } {
  const env = new Map<string, string>()
  for (const [name, value] of Object.entries(extend ? process.env : bareEnv())) {
    if (value !== undefined) env.set(name, value)
  }
  for (const [index, name] of (changes?.names ?? []).entries()) {
    const value = changes?.values[index]
    if (typeof value === 'string') env.set(name, value)
    else env.delete(name)
  }
  return { names: [...env.keys()], values: [...env.values()] }
}

function bareEnv(): Record<string, string> {
  return { PATH: DEFAULT_PATH, HOME: homeDirectory(), LANG: 'C.UTF-8' }
}

/** The user's home, or / for a user without an entry in the user database, for whom os.homedir() throws. */
function homeDirectory(): string {
  try {
    return os.homedir()
  } catch {
    return '/'
  }
}
