/** The options of calls on files. */

import type {
  Encoding,
  FileCopyOptions,
  FileListOptions,
  FileReadOptions,
  FileRemoveOptions,
  FileStreamOptions,
  FileWatchOptions,
  FileWriteOptions,
} from '../calls/index.js'
import { table } from '../schema/kind.js'
import { bytes, count } from '../schema/numbers.js'
import { abortSignal } from '../schema/signals.js'
import { encoding, flag } from '../schema/values.js'

/** Of `files.read`. */
export const fileReadOptions = table<FileReadOptions<Encoding>>()({
  encoding: { ...encoding, default: 'utf8' },
  maxBytes: { ...bytes, default: 268_435_456 },
  signal: abortSignal,
})

/** Of `files.readStream`. */
export const fileStreamOptions = table<FileStreamOptions>()({
  start: { ...bytes, default: 0 },
  end: bytes,
  signal: abortSignal,
})

/** Of `files.write`. */
export const fileWriteOptions = table<FileWriteOptions>()({
  mode: { ...count(0, 0o7777), bounds: '0 to 4095 (0o7777)' },
  append: { ...flag, default: false },
  signal: abortSignal,
})

/** Of `files.list`. */
export const fileListOptions = table<FileListOptions>()({
  recursive: { ...flag, default: false },
  maxDepth: count(1, 0xffff_ffff),
})

/** Of `files.copy`. */
export const fileCopyOptions = table<FileCopyOptions>()({
  recursive: { ...flag, default: false },
})

/** Of `files.remove`. */
export const fileRemoveOptions = table<FileRemoveOptions>()({
  recursive: { ...flag, default: false },
})

/** Of `files.watch`. */
export const fileWatchOptions = table<FileWatchOptions>()({
  recursive: { ...flag, default: true },
  signal: abortSignal,
})
