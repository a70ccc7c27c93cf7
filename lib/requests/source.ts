/**
 * Checks the options of a stream's `lines` and `toReadableStream`.
 */
import { mapped, oneOf } from '../schema/constructors.js'
import { readOptions } from '../schema/read.js'

/** The numbers of the output streams at the boundary. */
export const STDOUT = 1
export const STDERR = 2

/** The streams that `from` can name. `all` is both in order of arrival. */
const SOURCES = { stdout: [STDOUT], stderr: [STDERR], all: [STDOUT, STDERR] }

const from = mapped(oneOf(['stdout', 'stderr', 'all']), (name): readonly number[] => SOURCES[name])

/** Checks the options and returns the numbers of the streams to read. Throws OptionError. */
export function planSource(options: unknown, owner: string): readonly number[] {
  return readOptions({ from }, options, owner).from ?? [STDOUT]
}
