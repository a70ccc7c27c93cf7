/**
 * Checks the options of a stream's `lines` and `toReadableStream`.
 */
import { OptionError } from '../base/errors.js'
import { describe, readOptions } from '../schema/read.js'

/** The numbers of the output streams at the boundary. */
export const STDOUT = 1
export const STDERR = 2

/** The streams that `from` can name. `all` is both in order of arrival. */
const SOURCES: Record<string, readonly number[]> = {
  stdout: [STDOUT],
  stderr: [STDERR],
  all: [STDOUT, STDERR],
}

/** Checks the options and returns the numbers of the streams to read. Throws OptionError. */
export function planSource(options: unknown, owner: string): readonly number[] {
  return readOptions({ from: source }, options, owner).from ?? [STDOUT]
}

function source(value: unknown, name: string): readonly number[] {
  const streams = typeof value === 'string' && Object.hasOwn(SOURCES, value) ? SOURCES[value] : undefined
  if (streams !== undefined) return streams
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be 'stdout', 'stderr' or 'all', not ${describe(value)}`,
  )
}
