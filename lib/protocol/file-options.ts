/** The options of calls on files. */

import { wholeNumber } from '../options/numbers.js'
import { type Kind, option } from '../options/option.js'
import { abortSignal, bytes, count, encoding, flag } from './kinds.js'

/** Of `files.read`. */
export const fileReadOptions = {
  encoding: option(encoding, { doc: 'Whether the content is a string or bytes.', default: 'utf8' }),
  maxBytes: option(bytes, { doc: 'The largest file; a larger one is FILE_TOO_LARGE.', default: 268_435_456 }),
  signal: option(abortSignal, { doc: 'Aborting ends the call.', otherwise: 'none' }),
}

/** Of `files.readStream`. */
export const fileStreamOptions = {
  start: option(bytes, { doc: 'The first byte.', default: 0 }),
  end: option(bytes, { doc: 'The last byte, which is included.', otherwise: 'the end of the file' }),
  signal: option(abortSignal, { doc: 'Aborting ends the stream with an error.', otherwise: 'none' }),
}

const mode: Kind<number> = {
  read: wholeNumber(0, 0o7777),
  json: { schema: { type: 'integer', minimum: 0, maximum: 0o7777 } },
  bounds: '0 to 4095 (0o7777)',
}

/** Of `files.write`. */
export const fileWriteOptions = {
  mode: option(mode, {
    doc: 'Permission bits.',
    otherwise: 'those of the file that it replaces, or 0o666 without the umask',
  }),
  append: option(flag, { doc: 'Adds to the file instead of replacing it.', default: false }),
  signal: option(abortSignal, { doc: 'Aborting takes the write back.', otherwise: 'none' }),
}

/** Of `files.list`. */
export const fileListOptions = {
  recursive: option(flag, { doc: 'Lists directories below as well.', default: false }),
  maxDepth: option(count(1, 0xffff_ffff), {
    doc: 'Levels to list; above 1 only with `recursive`.',
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
  recursive: option(flag, { doc: 'Removes directories with their content.', default: false }),
}

/** Of `files.watch`. */
export const fileWatchOptions = {
  recursive: option(flag, { doc: 'Watches directories below as well, also new ones.', default: true }),
  signal: option(abortSignal, { doc: 'Aborting ends the iteration.', otherwise: 'none' }),
}
