/**
 * Checks the arguments of file calls. An impossible path is a SandboxError, everything else an OptionError. A call whose
 * signal is already aborted throws an AbortError.
 */
import { refuseAborted } from '../base/abort.js'
import { OptionError } from '../base/errors.js'
import {
  fileCopyOptions,
  fileListOptions,
  fileReadOptions,
  fileRemoveOptions,
  fileStreamOptions,
  fileWatchOptions,
  fileWriteOptions,
} from '../protocol/file-options.js'
import type { Encoding } from '../public/index.js'
import { type CheckedInput, commandInput } from '../schema/command.js'
import { type CheckedPath, checkPath } from '../schema/paths.js'
import { readArgument, readOptions } from '../schema/read.js'

export interface FileReadPlan {
  path: CheckedPath
  encoding: Encoding
  maxBytes: number
  signal: AbortSignal | undefined
}

export function planFileRead(path: unknown, options: unknown): FileReadPlan {
  const { encoding, maxBytes, signal } = readOptions(fileReadOptions, options, 'files.read')
  const checked = checkPath(path, 'path')
  refuseAborted(signal, 'the read')
  return {
    path: checked,
    encoding: encoding ?? fileReadOptions.encoding.default,
    maxBytes: maxBytes ?? fileReadOptions.maxBytes.default,
    signal,
  }
}

/** The range of a file stream: from `start` up to, but excluding, `end`. */
export interface FileStreamPlan {
  start: number
  end: number
  signal: AbortSignal | undefined
}

export function planFileStream(options: unknown): FileStreamPlan {
  const { start = 0, end, signal } = readOptions(fileStreamOptions, options, 'files.readStream')
  if (end !== undefined && end < start)
    throw new OptionError('INVALID_OPTION', `end (${end}) must not be before start (${start})`)
  return { start, end: end === undefined ? Number.POSITIVE_INFINITY : end + 1, signal }
}

export interface FileWritePlan {
  path: CheckedPath
  data: CheckedInput
  mode: number | undefined
  append: boolean
  signal: AbortSignal | undefined
}

export function planFileWrite(path: unknown, data: unknown, options: unknown): FileWritePlan {
  const { mode, append = false, signal } = readOptions(fileWriteOptions, options, 'files.write')
  const content = readArgument(commandInput, data, 'data')
  const checked = checkPath(path, 'path')
  refuseAborted(signal, 'the write')
  return { path: checked, data: content, mode, append, signal }
}

/** Checks the arguments of `list`, whose depth is in levels. */
export function planFileList(path: unknown, options: unknown): { path: CheckedPath; depth: number } {
  const values = readOptions(fileListOptions, options, 'files.list')
  const { recursive = false, maxDepth = recursive ? 0xffff_ffff : 1 } = values
  if (maxDepth > 1 && !recursive)
    throw new OptionError('INVALID_OPTION', 'maxDepth above 1 needs recursive: true')
  return { path: checkPath(path, 'path'), depth: maxDepth }
}

/** A call that changes files and returns nothing. */
export type FileAction =
  | { kind: 'mkdir'; path: CheckedPath }
  | { kind: 'rename'; path: CheckedPath; to: CheckedPath }
  | { kind: 'copy'; path: CheckedPath; to: CheckedPath; recursive: boolean }
  | { kind: 'remove'; path: CheckedPath; recursive: boolean }

export function planFileRename(from: unknown, to: unknown): FileAction {
  return { kind: 'rename', path: checkPath(from, 'from'), to: checkPath(to, 'to') }
}

export function planFileCopy(from: unknown, to: unknown, options: unknown): FileAction {
  const { recursive = false } = readOptions(fileCopyOptions, options, 'files.copy')
  return { kind: 'copy', path: checkPath(from, 'from'), to: checkPath(to, 'to'), recursive }
}

export function planFileRemove(path: unknown, options: unknown): FileAction {
  const { recursive = false } = readOptions(fileRemoveOptions, options, 'files.remove')
  return { kind: 'remove', path: checkPath(path, 'path'), recursive }
}

export interface FileWatchPlan {
  recursive: boolean
  signal: AbortSignal | undefined
}

export function planFileWatch(options: unknown): FileWatchPlan {
  const { recursive = true, signal } = readOptions(fileWatchOptions, options, 'files.watch')
  return { recursive, signal }
}
