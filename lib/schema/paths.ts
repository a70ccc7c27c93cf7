/**
 * Readers for paths. The engine finds out whether a path exists, when it uses it.
 */
import { OptionError } from '../base/errors.js'
import { describe } from './read.js'

/** A directory as a string or a file: URL, not empty, without NUL. */
export function directory(value: unknown, name: string): string {
  return checkedPath(value instanceof URL ? fromUrl(value, name) : value, name, 'a path or a file: URL')
}

/** A path as a string, not empty, without NUL. */
export function filePath(value: unknown, name: string): string {
  return checkedPath(value, name, 'a path')
}

function checkedPath(value: unknown, name: string, expected: string): string {
  if (typeof value === 'string' && value !== '' && !value.includes('\0')) return value
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be ${expected}, not empty and without NUL characters, not ${describe(value)}`,
  )
}

/** An encoded slash is refused: it would become a separator. */
function fromUrl(url: URL, name: string): string {
  const { protocol, hostname, pathname, href } = url
  try {
    if (protocol === 'file:' && hostname === '' && !/%2f/i.test(pathname)) return decodeURIComponent(pathname)
  } catch {
    // A percent sign in it encodes no character: refused like the rest.
  }
  throw new OptionError('INVALID_OPTION', `${name} must be a path or a file: URL, not ${href}`)
}
