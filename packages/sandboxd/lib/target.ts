/**
 * The target of a request: the path of a file below the root, and the query.
 *
 * The raw text is read, since a URL parser resolves `..` and `%2e%2e` before anything can refuse them.
 */
import { kinds } from 'nacre/internal'

import { RestRefusal } from './rest-error.js'

export interface Target {
  /** Without the query. */
  route: string
  query: URLSearchParams
}

/** Splits the target of a request, which may have a scheme and a host. */
export function targetOf(url: string): Target {
  const local = url.replace(/^https?:\/\/[^/?#]*/i, '')
  const at = local.indexOf('?')
  return at < 0
    ? { route: local, query: new URLSearchParams() }
    : { route: local.slice(0, at), query: new URLSearchParams(local.slice(at + 1)) }
}

/**
 * A path relative to the root, `.` for the root itself. `encoded` is the path as it is in the target; an
 * encoded slash separates, too. Throws PERMISSION_DENIED for a path that leads out of the root by its text.
 */
export function pathBelowRoot(encoded: string): kinds.CheckedPath {
  return below(decoded(encoded))
}

/** The same for a path that is not encoded. */
export function plainPathBelowRoot(text: string): kinds.CheckedPath {
  return below(withoutNul(Buffer.from(text, 'utf8').toString('latin1')))
}

function below(bytes: string): kinds.CheckedPath {
  // One character is one byte, so that names which are no UTF-8 stay what they are.
  const names: string[] = []
  for (const name of bytes.split('/')) {
    if (name === '' || name === '.') continue
    if (name !== '..') names.push(name)
    else if (names.pop() === undefined)
      throw new RestRefusal('PERMISSION_DENIED', 'the path leads out of the root')
  }
  return kinds.checkPath(Buffer.from(names.length === 0 ? '.' : names.join('/'), 'latin1'), 'path')
}

function decoded(encoded: string): string {
  if (/%(?![0-9a-f]{2})/i.test(encoded))
    throw new RestRefusal('INVALID_ARGUMENT', 'the path has a percent sign that begins no byte')
  const bytes = Buffer.from(encoded, 'utf8').toString('latin1')
  const text = bytes.replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
  return withoutNul(text)
}

function withoutNul(text: string): string {
  if (text.includes('\0')) throw new RestRefusal('INVALID_ARGUMENT', 'the path has a NUL character')
  return text
}
