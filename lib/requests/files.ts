/**
 * Checks the arguments of file calls. An impossible path is a SandboxError, everything else an OptionError. A call whose
 * signal is already aborted throws an AbortError.
 */
import { refuseAborted } from '../base/abort.js'
import { invalidOption } from '../base/errors.js'
import {
  fileListOptions,
  fileReadOptions,
  fileStatOptions,
  fileStreamOptions,
  fileTransferOptions,
  fileWatchOptions,
  fileWriteOptions,
} from '../calls/files.js'
import { type CheckedInput, commandInput } from '../schema/command.js'
import type { CompleteValues } from '../schema/kind.js'
import { type CheckedPath, checkPath, directory } from '../schema/paths.js'
import { readArgument, readWithDefaults, refusal } from '../schema/read.js'

export type FileReadPlan = CompleteValues<typeof fileReadOptions> & { path: CheckedPath }

export function planFileRead(path: unknown, options: unknown): FileReadPlan {
  const values = readWithDefaults(fileReadOptions, options, 'files.read')
  const checked = checkPath(path, 'path')
  refuseAborted(values.signal, 'the read')
  return { ...values, path: checked }
}

/** The range of a file stream: from `start` up to, but excluding, `end`. */
export interface FileStreamPlan {
  start: number
  end: number
  signal: AbortSignal | undefined
}

export function planFileStream(options: unknown): FileStreamPlan {
  const { start, end, signal } = readWithDefaults(fileStreamOptions, options, 'files.readStream')
  if (end !== undefined && end < start)
    throw invalidOption(`end (${end}) must not be before start (${start})`)
  return { start, end: end === undefined ? Number.POSITIVE_INFINITY : end + 1, signal }
}

export type FileWritePlan = CompleteValues<typeof fileWriteOptions> & {
  path: CheckedPath
  data: CheckedInput
}

export function planFileWrite(path: unknown, data: unknown, options: unknown): FileWritePlan {
  const values = readWithDefaults(fileWriteOptions, options, 'files.write')
  const content = readArgument(commandInput, data, 'data')
  const checked = checkPath(path, 'path')
  refuseAborted(values.signal, 'the write')
  return { ...values, path: checked, data: content }
}

export function planFileWrites(files: unknown): FileWritePlan[] {
  if (!Array.isArray(files)) throw refusal('files', 'must be a list of { path, data, mode }', files)
  return files.map((file, index) => {
    if (typeof file !== 'object' || file === null)
      throw refusal(`files[${index}]`, 'must be an object like { path, data, mode }', file)
    const { path, data, ...options } = file
    return planFileWrite(path, data, options)
  })
}

export function planFileTransfer(
  hostPath: unknown,
  options: unknown,
  call: string,
): CompleteValues<typeof fileTransferOptions> & { hostPath: string } {
  const values = readWithDefaults(fileTransferOptions, options, call)
  const checked = readArgument(directory.read, hostPath, 'hostPath')
  refuseAborted(values.signal, 'the copy')
  return { ...values, hostPath: checked }
}

export function planFileStat(path: unknown, options: unknown): { path: CheckedPath; follow: boolean } {
  const { followSymlinks } = readWithDefaults(fileStatOptions, options, 'files.stat')
  return { path: checkPath(path, 'path'), follow: followSymlinks }
}

/** Checks the arguments of `list`, whose depth is in levels. */
export function planFileList(path: unknown, options: unknown): { path: CheckedPath; depth: number } {
  const { recursive, maxDepth } = readWithDefaults(fileListOptions, options, 'files.list')
  const depth = maxDepth ?? (recursive ? 0xffff_ffff : 1)
  if (depth > 1 && !recursive) throw invalidOption('maxDepth above 1 needs recursive: true')
  return { path: checkPath(path, 'path'), depth }
}

export type FileWatchPlan = CompleteValues<typeof fileWatchOptions>

export function planFileWatch(options: unknown): FileWatchPlan {
  return readWithDefaults(fileWatchOptions, options, 'files.watch')
}
