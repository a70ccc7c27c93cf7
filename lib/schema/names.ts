/** Kinds of ids and names. An id can become a file name, so it must not be able to name a path. */
import { pattern, text } from './constructors.js'
import { readArgument } from './read.js'

export const identifier = pattern(
  /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}$/,
  "must be 1 to 128 characters of A-Z a-z 0-9 . _ - and not '.' or '..'",
  { bounds: '1 to 128 of A-Z a-z 0-9 . _ -', code: 'INVALID_ID' },
)

/** Checks an id. Throws OptionError. */
export function readId(id: unknown, name = 'id'): string {
  return readArgument(identifier.read, id, name)
}

/** A name that is only compared and displayed, never used as a path, so any text will do. */
export const label = text((name) => name !== '', 'must be a non-empty string', {
  bounds: 'non-empty text',
  code: 'INVALID_ID',
})

/** A name of a fork: a label of a host name, with room for a number. Two hyphens would begin names in other scripts (`xn--`). */
export const hostLabel = pattern(
  /^(?=.{1,50}$)[a-z0-9]+(?:-[a-z0-9]+)*$/,
  'must be 1 to 50 characters of a-z and 0-9, with single hyphens between them',
  { bounds: '1 to 50 of a-z 0-9, single hyphens between them' },
)

/** A one-line name for people. */
export const displayName = pattern(
  /^[ -~\x80-\uffff]{1,256}$/,
  'must be 1 to 256 characters without control characters',
  { bounds: '1 to 256 characters, no control characters' },
)
