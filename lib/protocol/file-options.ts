/** The options of calls on files. */

import { option } from '../schema/kind.js'
import { bytes, count } from '../schema/numbers.js'
import { abortSignal } from '../schema/signals.js'
import { encoding, flag } from '../schema/values.js'

/** Of `files.read`. */
export const fileReadOptions = {
  encoding: option(encoding, {
    doc: 'Returns the content as a string (utf8) or as bytes (buffer).',
    default: 'utf8',
  }),
  maxBytes: option(bytes, {
    doc: 'Maximum size of the file. A larger file rejects with FILE_TOO_LARGE.',
    default: 268_435_456,
  }),
  signal: option(abortSignal, { doc: 'Aborting ends the call.', otherwise: 'none' }),
}

/** Of `files.readStream`. */
export const fileStreamOptions = {
  start: option(bytes, { doc: 'Offset of the first byte.', default: 0 }),
  end: option(bytes, { doc: 'Offset of the last byte, inclusive.', otherwise: 'the end of the file' }),
  signal: option(abortSignal, { doc: 'Aborting ends the stream with an error.', otherwise: 'none' }),
}

/** Of `files.write`. */
export const fileWriteOptions = {
  mode: option(
    { ...count(0, 0o7777), bounds: '0 to 4095 (0o7777)' },
    {
      doc: 'Permission bits of the file.',
      otherwise: 'those of the replaced file, or 0o666 with the umask applied',
    },
  ),
  append: option(flag, { doc: 'Appends to the file instead of replacing it.', default: false }),
  signal: option(abortSignal, { doc: 'Aborting undoes the write.', otherwise: 'none' }),
}

/** Of `files.list`. */
export const fileListOptions = {
  recursive: option(flag, { doc: 'Includes subdirectories.', default: false }),
  maxDepth: option(count(1, 0xffff_ffff), {
    doc: 'Maximum depth. Values above 1 need `recursive`.',
    otherwise: 'all',
  }),
}

/** Of `files.copy`. */
export const fileCopyOptions = {
  recursive: option(flag, {
    doc: 'Copies directories with their content, and symlinks as symlinks.',
    default: false,
  }),
}

/** Of `files.remove`. */
export const fileRemoveOptions = {
  recursive: option(flag, { doc: 'Removes directories and their content.', default: false }),
}

/** Of `files.watch`. */
export const fileWatchOptions = {
  recursive: option(flag, { doc: 'Includes subdirectories, even those created later.', default: true }),
  signal: option(abortSignal, { doc: 'Aborting ends the iteration.', otherwise: 'none' }),
}
