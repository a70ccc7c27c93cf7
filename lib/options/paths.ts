/**
 * Readers for paths. Whether a path exists is for the engine to find out, when it uses it.
 */
import { fileURLToPath } from 'node:url'
import { OptionError } from '../errors'
import { describe } from './read'

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

function fromUrl(url: URL, name: string): string {
  try {
    return fileURLToPath(url)
  } catch (cause) {
    throw new OptionError('INVALID_OPTION', `${name} must be a path or a file: URL, not ${url.href}`, {
      cause,
    })
  }
}
