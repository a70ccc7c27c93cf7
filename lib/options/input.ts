/**
 * Reader for the input of a command: text, bytes, or something that gives them one after the other.
 */
import { OptionError } from '../base/errors.js'
import { describe } from './read.js'

/** Bytes at hand, or a source of chunks, which are checked one by one as they come. */
export type CheckedInput = Uint8Array | AsyncIterable<unknown>

const encoder = new TextEncoder()

/** Text becomes UTF-8. Streams of Node and of the web are async iterables on every supported platform. */
export function commandInput(value: unknown, name: string): CheckedInput {
  if (typeof value === 'string' || value instanceof Uint8Array) return inputBytes(value, name)
  if (isAsyncIterable(value)) return value
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be a string, a Uint8Array, an async iterable or a ReadableStream, not ${describe(value)}`,
  )
}

/** A string or Uint8Array as bytes. */
export function inputBytes(value: unknown, name: string): Uint8Array {
  if (typeof value === 'string') return encoder.encode(value)
  if (value instanceof Uint8Array) return value
  throw new OptionError('INVALID_OPTION', `${name} must give strings or Uint8Arrays, not ${describe(value)}`)
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  const iterable = value as Partial<AsyncIterable<unknown>> | null
  return typeof iterable === 'object' && typeof iterable?.[Symbol.asyncIterator] === 'function'
}
