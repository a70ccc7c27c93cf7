/** Readers for the options of the drop-in session. */
import { OptionError } from '../base/errors.js'
import { envChanges, isVariableName } from './env.js'
import { describe, readEntries } from './read.js'

export type Variables = Record<string, string | undefined>

/** An option that containers pass on from their own callers: accepted with any value, and ignored. */
export function ignored(): undefined {
  return undefined
}

/** A name that is only compared and displayed, never used as a path, so any text will do. */
export function label(value: unknown, name: string): string {
  if (typeof value === 'string' && value !== '') return value
  throw new OptionError('INVALID_ID', `${name} must be a non-empty string, not ${describe(value)}`)
}

export function origin(value: unknown, name: string): 'user' | 'internal' {
  if (value === 'user' || value === 'internal') return value
  throw new OptionError('INVALID_OPTION', `${name} must be 'user' or 'internal', not ${describe(value)}`)
}

/** Variables on top of this process's environment; `undefined` and null unset a variable. */
export function sessionVariables(value: unknown, name: string): Variables {
  const found = readEntries(value, name).map(([key, item]): [string, unknown] => {
    if (!isVariableName(key))
      throw new OptionError('INVALID_ENV_NAME', `Invalid environment variable name: ${key}`)
    return [key, item ?? undefined]
  })
  const checked = Object.fromEntries(found)
  envChanges(checked, name)
  return checked as Variables
}

/** Variables of a command; `undefined` and null are skipped, so the command sees the session's value. */
export function commandVariables(value: unknown, name: string): Variables {
  return Object.fromEntries(
    Object.entries(sessionVariables(value, name)).filter(([, variable]) => variable !== undefined),
  )
}
