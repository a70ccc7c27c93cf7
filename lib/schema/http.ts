/** Kinds of values of HTTP. Their messages never show a value that may be a secret. */
import { invalidOption } from '../base/errors.js'
import { mapped, oneOf, orUrl, pattern, text } from './constructors.js'
import { VARIABLE_NAME } from './env.js'
import type { Kind } from './kind.js'
import { count } from './numbers.js'
import { withoutFinalSlashes } from './paths.js'
import { quote, readEntries } from './read.js'

const urlText = text(
  isServerUrl,
  "must be an http: or https: URL without user, query and fragment, like 'http://127.0.0.1:4747'",
  { bounds: 'an http: or https: URL', isSecret: true },
)

function isServerUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, search, hash, username, password } = new URL(text)
  return /^https?:$/.test(protocol) && search + hash + username + password === ''
}

/** The URL of a server, without a slash at its end. */
export const serverUrl = mapped(
  orUrl(urlText, (url) => url.href),
  withoutFinalSlashes,
)

/** A token that is valid in a header. */
export const token = pattern(
  /^[\x21-\x7e]+$/,
  "must be printable ASCII without blanks, and without the word 'Bearer'",
  { bounds: 'printable ASCII without blanks', isSecret: true },
)

/** A token of a server. A shorter one could be guessed. */
export const serverToken = pattern(
  /^[\x21-\x7e]{16,}$/,
  'must be at least 16 characters of printable ASCII without blanks',
  { isSecret: true },
)

const tokenHeaders = oneOf(['authorization', 'x-nacre-token'])

/** The name of a header, in any case. */
export const tokenHeader: Kind<'authorization' | 'x-nacre-token'> = {
  ...tokenHeaders,
  read(value, name) {
    const isText = typeof value === 'string' && /^(authorization|x-nacre-token)$/i.test(value)
    return tokenHeaders.read(isText ? value.toLowerCase() : value, name)
  },
}

/** Headers by lower-case name. */
export const headers: Kind<Readonly<Record<string, string>>, Record<string, string>> = {
  read(value, name) {
    const checked: Record<string, string> = {}
    for (const [given, text] of readEntries(value, name)) {
      const header = given.toLowerCase()
      if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(header) || Object.hasOwn(checked, header))
        throw invalidOption(`${name} must have valid header names, each once, not ${quote(given)}`)
      if (typeof text !== 'string' || !/^[\t\x20-\x7e\x80-\xff]*$/.test(text))
        throw invalidOption(`${name}.${given} must be text of one line in Latin-1`)
      checked[header] = text
    }
    return checked
  },
  bounds: 'strings by name',
}

const origin = text(
  (text) => URL.canParse(text) && new URL(text).origin === text,
  "must have origins like 'https://example.com' only",
)

/** Origins as browsers send them. '*' is refused: it would let every web page run commands. */
export const origins: Kind<string | readonly string[], string[]> = {
  read: (value, name) =>
    (Array.isArray(value) ? Array.from<unknown>(value) : [value]).map((item) => origin.read(item, name)),
  bounds: "origins like 'https://example.com'",
}

export const hostName = pattern(/^[A-Za-z0-9.:_-]{1,255}$/, 'must be a host name or an address')

/** The beginning of variable names. An empty prefix would show all variables. */
export const variablePrefix = pattern(VARIABLE_NAME, 'must be a prefix of variable names')

export const portNumber = count(1, 65_535)

/** A path that is valid in a request line: it begins with a slash, and has no blanks or control characters. */
export const requestPath = pattern(
  /^\/[\x21-\x7e]*$/,
  'must begin with / and be of printable ASCII without blanks',
  { bounds: 'printable ASCII without blanks, beginning with /' },
)

export const statusCode = count(100, 599)
