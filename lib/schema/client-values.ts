/** Readers for the options of SandboxClient. Their messages never show a value that may be a secret. */
import { OptionError } from '../base/errors.js'
import { describe, quote, readEntries } from './read.js'

export function serverUrl(value: unknown, name: string): string {
  const text = value instanceof URL ? value.href : value
  if (typeof text === 'string' && URL.canParse(text)) {
    const { protocol, search, hash, username, password } = new URL(text)
    if (/^https?:$/.test(protocol) && search + hash + username + password === '')
      return text.replace(/\/+$/, '')
  }
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be an http: or https: URL without user, query and fragment`,
  )
}

/** A token that is valid in a header. */
export function clientToken(value: unknown, name: string): string {
  if (typeof value === 'string' && /^[\x21-\x7e]+$/.test(value)) return value
  throw new OptionError('INVALID_OPTION', `${name} must be printable ASCII without blanks`)
}

/** Headers by lower-case name. */
export function requestHeaders(value: unknown, name: string): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const [given, text] of readEntries(value, name)) {
    const header = given.toLowerCase()
    if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(header) || Object.hasOwn(headers, header))
      throw new OptionError(
        'INVALID_OPTION',
        `${name} must have valid header names, each once, not ${quote(given)}`,
      )
    if (typeof text !== 'string' || !/^[\t\x20-\x7e\x80-\xff]*$/.test(text))
      throw new OptionError('INVALID_OPTION', `${name}.${given} must be text of one line in Latin-1`)
    headers[header] = text
  }
  return headers
}

/** The name of a header, in any case. */
export function tokenHeaderName(value: unknown, name: string): 'authorization' | 'x-nacre-token' {
  const header = typeof value === 'string' ? value.toLowerCase() : undefined
  if (header === 'authorization' || header === 'x-nacre-token') return header
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be 'authorization' or 'x-nacre-token', not ${describe(value)}`,
  )
}
