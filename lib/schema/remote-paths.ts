/** Reader for paths on another machine. */
import { OptionError } from '../base/errors.js'
import { describe } from './read.js'

/** An absolute path of printable characters, without a slash at its end. */
export function remoteDirectory(value: unknown, name: string): string {
  if (typeof value === 'string' && /^\/[^\p{Cc}]*$/u.test(value)) return value.replace(/(?<=.)\/+$/, '')
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be an absolute path without control characters, not ${describe(value)}`,
  )
}
