/** Readers for the options of a server. */
import { OptionError } from '../base/errors.js'
import { describe } from './read.js'

/** A shorter token could be guessed. */
const LEAST_TOKEN_CHARACTERS = 16

/** A token that is valid in a header and long enough. The message never shows it. */
export function serverToken(value: unknown, name: string): string {
  if (typeof value === 'string' && value.length >= LEAST_TOKEN_CHARACTERS && /^[\x21-\x7e]+$/.test(value))
    return value
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be at least ${LEAST_TOKEN_CHARACTERS} characters of printable ASCII without blanks`,
  )
}

/** Origins as browsers send them. '*' is refused: it would let every web page run commands. */
export function origins(value: unknown, name: string): string[] {
  const list: unknown[] = Array.isArray(value) ? Array.from(value) : [value]
  return list.map((item) => {
    if (typeof item === 'string' && URL.canParse(item) && new URL(item).origin === item) return item
    throw new OptionError(
      'INVALID_OPTION',
      `${name} must have origins like 'https://example.com' only, not ${describe(item)}`,
    )
  })
}

/** The beginning of variable names. An empty prefix would show all variables. */
export function variablePrefix(value: unknown, name: string): string {
  if (typeof value === 'string' && /^[A-Za-z_][A-Za-z0-9_]*$/.test(value)) return value
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be a prefix of variable names, not ${describe(value)}`,
  )
}

export function hostName(value: unknown, name: string): string {
  if (typeof value === 'string' && /^[A-Za-z0-9.:_-]{1,255}$/.test(value)) return value
  throw new OptionError('INVALID_OPTION', `${name} must be a host name or an address, not ${describe(value)}`)
}
