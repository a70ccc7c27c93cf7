/** Reader for paths of files in a sandbox. */
import { OptionError, SandboxError } from '../base/errors.js'
import { describe } from './read.js'

/** A path as bytes, and as text for messages. */
export interface CheckedPath {
  bytes: Uint8Array
  shown: string
}

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** Reads a path. Throws OptionError for a value of another type, and INVALID_PATH for an impossible path. */
export function checkPath(value: unknown, name: string): CheckedPath {
  if (value instanceof Uint8Array) return checked(Uint8Array.from(value), decoder.decode(value))
  if (typeof value !== 'string')
    throw new OptionError(
      'INVALID_OPTION',
      `${name} must be a string or a Uint8Array, not ${describe(value)}`,
    )
  const bytes = encoder.encode(value)
  // Half a surrogate pair has no UTF-8 form: the encoded name would be a different one.
  if (decoder.decode(bytes) !== value)
    throw invalid(value, 'has half a surrogate pair; give bytes for names that are not Unicode')
  return checked(bytes, value)
}

function checked(bytes: Uint8Array, shown: string): CheckedPath {
  if (bytes.length === 0) throw invalid(shown, 'is empty')
  if (bytes.includes(0)) throw invalid(shown, 'has a NUL character')
  return { bytes, shown }
}

function invalid(path: string, what: string): SandboxError {
  return new SandboxError('INVALID_PATH', `the path ${JSON.stringify(path)} ${what}`, { path })
}

/** The last part of a path. */
export function nameOf(path: string): string {
  return /([^/]+)\/*$/.exec(path)?.[1] ?? '/'
}
