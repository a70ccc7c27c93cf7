/**
 * Reader for a command's input: text, bytes, or a source that produces them one after another.
 */
import { OptionError } from '../base/errors.js'
import { describe } from './read.js'

/** Bytes, or a source of chunks, each of which is checked as it arrives. */
export type CheckedInput = Uint8Array | AsyncIterable<unknown>

const encoder = new TextEncoder()

/** Reads an input; text becomes UTF-8. Streams of Node and the web are async iterables on every supported platform. */
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
