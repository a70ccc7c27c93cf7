/**
 * Kinds of paths. The engine finds out whether a path exists, when it uses it.
 */
import { invalidOption, SandboxError } from '../base/errors.js'
import { bytesOf } from '../base/realm.js'
import { data, encodeBytes, type WireData } from './command.js'
import { mapped, orUrl, pattern } from './constructors.js'
import type { JsonForm, Kind } from './kind.js'
import { refusal } from './read.js'

const NOT_EMPTY = /^[^\0]+$/

/** A path as a string, not empty, without NUL. */
export const filePath = pattern(NOT_EMPTY, 'must be a path, not empty and without NUL characters', {
  bounds: 'a path',
})

/** A directory as a string or a file: URL, not empty, without NUL. */
export const directory = orUrl(
  pattern(NOT_EMPTY, 'must be a path or a file: URL, not empty and without NUL characters', {
    bounds: 'a path or a file: URL',
  }),
  fromUrl,
)

/** Typed as text only, for public types without URL. */
export const directoryText = directory as Kind<string>

/** An encoded slash is refused: it would become a separator. */
function fromUrl(url: URL, name: string): string {
  const { protocol, hostname, pathname, href } = url
  try {
    if (protocol === 'file:' && hostname === '' && !/%2f/i.test(pathname)) return decodeURIComponent(pathname)
  } catch {
    // A percent sign in it encodes no character: refused like the rest.
  }
  throw invalidOption(`${name} must be a path or a file: URL, not ${href}`)
}

/** An absolute path of printable characters on another machine, without a slash at its end. */
export const remoteDirectory = mapped(
  pattern(/^\/[^\p{Cc}]*$/u, 'must be an absolute path without control characters'),
  (path) => withoutFinalSlashes(path) || '/',
)

/** A path of a file in a sandbox: as bytes, and as text for messages. */
export interface CheckedPath {
  bytes: Uint8Array
  shown: string
}

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** Reads a path. Throws OptionError for a value of another type, and INVALID_PATH for an impossible path. */
export function checkPath(value: unknown, name: string): CheckedPath {
  const given = bytesOf(value)
  if (given !== undefined) return checked(Uint8Array.from(given), decoder.decode(given))
  if (typeof value !== 'string') throw refusal(name, 'must be a string or a Uint8Array', value)
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

/** The path of a file in a sandbox. */
export const sandboxPath: Kind<string | Uint8Array, CheckedPath> = {
  read: checkPath,
  json: { ...(data.json as JsonForm<never>), encode: encodePath },
  bounds: data.bounds,
}

/** Whether the text has all of the path. */
export function isText({ bytes, shown }: CheckedPath): boolean {
  const encoded = encoder.encode(shown)
  return encoded.length === bytes.length && encoded.every((byte, index) => byte === bytes[index])
}

/** A path in JSON. */
export function encodePath(path: CheckedPath): WireData {
  return isText(path) ? path.shown : encodeBytes(path.bytes)
}

function invalid(path: string, what: string): SandboxError {
  return new SandboxError('INVALID_PATH', `the path ${JSON.stringify(path)} ${what}`, { path })
}

/** The last part of a path. Programs in a sandbox choose paths, so this takes no longer than one look at each character. */
export function nameOf(path: string): string {
  const trimmed = withoutFinalSlashes(path)
  return trimmed.slice(trimmed.lastIndexOf('/') + 1) || '/'
}

/** A text without the slashes at its end. An expression like `/\/+$/` would try each slash as the first of them. */
export function withoutFinalSlashes(text: string): string {
  let end = text.length
  while (end > 0 && text[end - 1] === '/') end--
  return text.slice(0, end)
}
