/** Files. */

import type { Encoding, Output } from '../base/types.js'
import { table } from '../schema/kind.js'
import { bytes, count } from '../schema/numbers.js'
import { bytes as bytesField, date, number, optional, reply, text, wordOf } from '../schema/reply.js'
import { abortSignal } from '../schema/signals.js'
import { encoding, flag } from '../schema/values.js'

/**
 * A path. A relative path starts at the session's directory after its last completed command. Bytes can name any file;
 * a string can name only files whose names are UTF-8.
 */
export type FilePath = string | Uint8Array

/** A file, a directory, a symlink, or something else like a FIFO or a device. */
export interface FileInfo {
  /** The given path, or a path below it. Bytes that are not UTF-8 are shown as U+FFFD. */
  path: string
  /** The path as bytes, if it is not UTF-8. */
  pathBytes?: Uint8Array
  name: string
  type: 'file' | 'directory' | 'symlink' | 'other'
  /** Bytes. */
  size: number
  /** Permission bits, like 0o644. */
  mode: number
  /** The number of the user that owns it, as programs of the session see it. */
  uid: number
  /** The number of the group that owns it, as programs of the session see it. */
  gid: number
  modifiedAt: Date
  /** The target of a symlink. In the result of {@link Files.stat}, only if the path itself is a symlink. */
  target?: string
}

export const fileInfo = reply<FileInfo>(
  {
    path: text,
    name: text,
    type: wordOf('file', 'directory', 'symlink', 'other'),
    size: number,
    mode: number,
    uid: number,
    gid: number,
    target: optional(text),
    pathBytes: { ...optional(bytesField), name: 'pathBase64' },
    modifiedAt: date,
  },
  'File',
)

/** A change of a watched file. */
export interface FileEvent {
  /** 'overflow' means that changes were lost; `path` is then the watched path. */
  type: 'created' | 'modified' | 'deleted' | 'renamed' | 'overflow'
  /** Joined to the watched path. Bytes that are not UTF-8 are shown as U+FFFD. */
  path: string
  /** The path as bytes, if it is not UTF-8. */
  pathBytes?: Uint8Array
  /** For 'renamed': the previous path. */
  oldPath?: string
  /** The previous path as bytes, if it is not UTF-8. */
  oldPathBytes?: Uint8Array
}

export const fileEvent = reply<FileEvent>({
  type: wordOf('created', 'modified', 'deleted', 'renamed', 'overflow'),
  path: text,
  oldPath: optional(text),
  pathBytes: { ...optional(bytesField), name: 'pathBase64' },
  oldPathBytes: { ...optional(bytesField), name: 'oldPathBase64' },
})

/** Options of {@link Files.read}. */
export interface FileReadOptions<E extends Encoding = 'utf8'> {
  /** 'utf8' gives a string, in which invalid bytes are U+FFFD and a byte order mark stays; 'buffer' gives bytes. Default: 'utf8'. */
  encoding?: E
  /** Maximum size in bytes. A larger file rejects with FILE_TOO_LARGE. Default: 268435456 (256 MiB). */
  maxBytes?: number
  /** Aborting ends the call. */
  signal?: AbortSignal
}

export const fileReadOptions = table<FileReadOptions<Encoding>>()({
  encoding: { ...encoding, default: 'utf8' },
  maxBytes: { ...bytes, default: 268_435_456 },
  signal: abortSignal,
})

/** Options of {@link Files.readStream}. */
export interface FileStreamOptions {
  /** Offset of the first byte. Default: 0. */
  start?: number
  /** Offset of the last byte, inclusive as in `fs.createReadStream`. Default: the end of the file. */
  end?: number
  /** Aborting ends the stream with an error. */
  signal?: AbortSignal
}

export const fileStreamOptions = table<FileStreamOptions>()({
  start: { ...bytes, default: 0 },
  end: bytes,
  signal: abortSignal,
})

/** Options of {@link Files.write}. */
export interface FileWriteOptions {
  /** Permission bits, 0 to 4095 (0o7777). Default: those of the replaced file, or 0o666 with the umask applied. */
  mode?: number
  /** Appends to the file instead of replacing it. Default: false. */
  append?: boolean
  /** Aborting undoes the write. */
  signal?: AbortSignal
}

export const fileWriteOptions = table<FileWriteOptions>()({
  mode: { ...count(0, 0o7777), bounds: '0 to 4095 (0o7777)' },
  append: { ...flag, default: false },
  signal: abortSignal,
})

/** Options of {@link Files.stat}. */
export interface FileStatOptions {
  /** Describes what a symlink leads to, and not the symlink. Default: true. */
  followSymlinks?: boolean
}

export const fileStatOptions = table<FileStatOptions>()({ followSymlinks: { ...flag, default: true } })

/** Options of {@link Files.list}. */
export interface FileListOptions {
  /** Includes subdirectories. Symlinks are not followed. Default: false. */
  recursive?: boolean
  /** Maximum depth, 1 to 4294967295. Values above 1 need `recursive`. Default: no limit. */
  maxDepth?: number
}

export const fileListOptions = table<FileListOptions>()({
  recursive: { ...flag, default: false },
  maxDepth: count(1, 0xffff_ffff),
})

/** Options of {@link Files.copy}. */
export interface FileCopyOptions {
  /** Copies directories with their content, and symlinks as symlinks. Default: false. */
  recursive?: boolean
}

export const fileCopyOptions = table<FileCopyOptions>()({ recursive: { ...flag, default: false } })

/** Options of {@link Files.remove}. */
export interface FileRemoveOptions {
  /** Removes directories and their content. Default: false. */
  recursive?: boolean
}

export const fileRemoveOptions = table<FileRemoveOptions>()({ recursive: { ...flag, default: false } })

/** A file for {@link Files.writeMany}. */
export interface FileToWrite extends FileWriteOptions {
  path: FilePath
  data: string | Uint8Array | AsyncIterable<string | Uint8Array> | ReadableStream<string | Uint8Array>
}

/** Options of {@link Files.copyIn} and {@link Files.copyOut}. */
export interface FileTransferOptions {
  /** Maximum bytes of all files together. Beyond it, the copy rejects with FILE_TOO_LARGE. Default: 1073741824 (1 GiB). */
  maxBytes?: number
  /** Aborting ends the copy. Files that are complete stay. */
  signal?: AbortSignal
}

export const fileTransferOptions = table<FileTransferOptions>()({
  maxBytes: { ...bytes, default: 1_073_741_824 },
  signal: abortSignal,
})

/** What a copy between this machine and the sandbox has done. */
export interface FileTransfer {
  files: number
  directories: number
  /** Bytes of all files together. */
  bytes: number
  /** What was left out: the first 1000 symlinks, FIFOs, sockets and devices, by the paths where they are. */
  skipped: string[]
}

/** Options of {@link Files.watch}. */
export interface FileWatchOptions {
  /** Includes subdirectories, even those created later. Default: true. */
  recursive?: boolean
  /** Aborting ends the iteration. */
  signal?: AbortSignal
}

export const fileWatchOptions = table<FileWatchOptions>()({
  recursive: { ...flag, default: true },
  signal: abortSignal,
})

/**
 * File access as the commands of a session have it: same user, same view of the file system, same isolation rules.
 *
 * Rejects with SandboxError, whose `path` names the file: FILE_NOT_FOUND, FILE_EXISTS, NOT_A_DIRECTORY, IS_A_DIRECTORY,
 * PERMISSION_DENIED, FILE_TOO_LARGE, NO_SPACE or INVALID_PATH.
 */
export interface Files {
  /** Reads a regular file. Other kinds, like FIFOs and devices, reject with INVALID_PATH. */
  read<E extends Encoding = 'utf8'>(path: FilePath, options?: FileReadOptions<E>): Promise<Output<E>>
  /** Reads a regular file as a stream. The first read opens the file, and rejects if that fails. */
  readStream(path: FilePath, options?: FileStreamOptions): ReadableStream<Uint8Array>
  /**
   * Writes a file and creates missing parents. The new content replaces the old in one step, after everything was
   * written. A reader sees either the old or the new content, and a failed write leaves the old.
   */
  write(
    path: FilePath,
    data: string | Uint8Array | AsyncIterable<string | Uint8Array> | ReadableStream<string | Uint8Array>,
    options?: FileWriteOptions,
  ): Promise<FileInfo>
  /**
   * Writes files, one after the other, each as `write` does. If one fails, the call rejects with its error, whose `path` names
   * it: the files before it are written, and those after it are not. All arguments are checked before anything is written.
   */
  writeMany(files: readonly FileToWrite[]): Promise<FileInfo[]>
  /**
   * Copies a file or a directory of this machine to `path`, and creates missing parents. Files replace existing ones, and
   * directories are merged. Permissions are kept, except for those of directories that exist. It needs Node.js or Bun.
   *
   * Symlinks below `hostPath` are not followed, and neither they nor FIFOs and devices are copied, even if a program replaces a
   * file or directory meanwhile (on Linux). A copy has at most 1,000,000 entries and 500 levels, or rejects with FILE_TOO_LARGE.
   * If it fails, the files before are copied. What fails on this machine rejects with the error of the system, like ENOENT.
   */
  copyIn(hostPath: string | URL, path: FilePath, options?: FileTransferOptions): Promise<FileTransfer>
  /**
   * Copies a file or a directory of the sandbox to `hostPath` on this machine, as {@link Files.copyIn} does. Symlinks in an
   * existing directory at `hostPath` are not followed either. Each file appears when it is complete. Missing parents are made.
   *
   * Rejects with NOT_A_DIRECTORY if a file or symlink on this machine is in the way of a directory, and with IS_A_DIRECTORY if a
   * directory is in the way of a file.
   */
  copyOut(path: FilePath, hostPath: string | URL, options?: FileTransferOptions): Promise<FileTransfer>
  /** Sets the permission bits of a file or a directory, 0 to 4095 (0o7777). Follows a symlink. */
  chmod(path: FilePath, mode: number): Promise<void>
  /** Lists a directory, sorted by path. Default: the session's directory. */
  list(path?: FilePath, options?: FileListOptions): Promise<FileInfo[]>
  /** Returns the metadata of a file, or null if it does not exist. */
  stat(path: FilePath, options?: FileStatOptions): Promise<FileInfo | null>
  /** Returns whether there is a file. A symlink that leads nowhere is none. */
  exists(path: FilePath): Promise<boolean>
  /** Creates a directory and its missing parents. Rejects with FILE_EXISTS if it already exists. */
  mkdir(path: FilePath): Promise<void>
  /** Renames a file or a directory. Replaces an existing file. */
  rename(from: FilePath, to: FilePath): Promise<void>
  /**
   * Copies a file, replacing an existing file. With `recursive`, also copies a directory to a path that does not exist.
   */
  copy(from: FilePath, to: FilePath, options?: FileCopyOptions): Promise<void>
  /** Removes a file, a symlink (not its target) or an empty directory. With `recursive`, removes any directory. */
  remove(path: FilePath, options?: FileRemoveOptions): Promise<void>
  /**
   * Reports changes of a file, or of files in a directory. The watch begins with this call, which takes a moment: changes
   * that are made meanwhile may be left out. Breaking out of the loop ends the watch.
   * The iteration also ends when the watched path is deleted.
   */
  watch(path?: FilePath, options?: FileWatchOptions): AsyncIterableIterator<FileEvent>
}
