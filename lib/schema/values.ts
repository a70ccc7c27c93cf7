/**
 * Readers for simple kinds of option: flags, callbacks, encodings, loggers.
 */

import { OptionError } from '../base/errors.js'
import type { Encoding, Logger } from '../public/index.js'
import { describe } from './read.js'

export function flag(value: unknown, name: string): boolean {
  if (typeof value === 'boolean') return value
  throw new OptionError('INVALID_OPTION', `${name} must be true or false, not ${describe(value)}`)
}

/** Any function; the public types define its parameters. */
export function callback(value: unknown, name: string): (...parameters: unknown[]) => unknown {
  if (typeof value === 'function') return value as (...parameters: unknown[]) => unknown
  throw new OptionError('INVALID_OPTION', `${name} must be a function, not ${describe(value)}`)
}

export function encoding(value: unknown, name: string): Encoding {
  if (value === 'utf8' || value === 'buffer') return value
  throw new OptionError('INVALID_OPTION', `${name} must be 'utf8' or 'buffer', not ${describe(value)}`)
}

/** An object with the four methods of a logger, which may be inherited, as in console and classes. */
export function logger(value: unknown, name: string): Logger {
  const candidate =
    typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  for (const method of ['debug', 'info', 'warn', 'error']) {
    if (typeof candidate?.[method] !== 'function') {
      throw new OptionError(
        'INVALID_OPTION',
        `${name} must have the methods debug, info, warn and error; ${method} is missing`,
      )
    }
  }
  return value as Logger
}
