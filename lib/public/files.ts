/** Files. */

import type { Encoding, Output } from './command.js'

/**
 * A path. A relative one starts at the directory that the session was in after its last completed command. As bytes it
 * can name any file; as a string, only those with names in UTF-8.
 */
export type FilePath = string | Uint8Array

/** A file, a directory, a symlink, or something else like a FIFO or a device. */
export interface FileInfo {
  /** As given, or joined to what was given. Bytes that are not UTF-8 are shown as U+FFFD. */
  path: string
  /** The path as bytes, when it is not UTF-8. */
  pathBytes?: Uint8Array
  name: string
  type: 'file' | 'directory' | 'symlink' | 'other'
  /** Bytes. */
  size: number
  /** Permission bits, like 0o644. */
  mode: number
  modified: Date
  /** What a symlink points at; of {@link Files.stat}, when the path itself is a symlink. */
  target?: string
}

/** A change of a watched file. */
export interface FileEvent {
  /** 'overflow': changes were lost; `path` is the watched one. */
  type: 'created' | 'modified' | 'deleted' | 'renamed' | 'overflow'
  /** Joined to the watched path. */
  path: string
  /** Of 'renamed': the path before. */
  oldPath?: string
}

/** Options of {@link Files.read}. */
export interface FileReadOptions<E extends Encoding = 'utf8'> {
  /** 'utf8' gives a string, in which invalid bytes are U+FFFD and a byte order mark stays; 'buffer' gives bytes. Default: 'utf8'. */
  encoding?: E
  /** Most bytes of the file; a larger one is FILE_TOO_LARGE. Default: 268435456 (256 MiB). */
  maxBytes?: number
  signal?: AbortSignal
}

/** Options of {@link Files.readStream}. */
export interface FileStreamOptions {
  /** The first byte. Default: 0. */
  start?: number
  /** The last byte, which is included, as with `fs.createReadStream`. Default: the end of the file. */
  end?: number
  signal?: AbortSignal
}

/** Options of {@link Files.write}. */
export interface FileWriteOptions {
  /** Permission bits, 0 to 4095 (0o7777). Default: those of the file that it replaces, or 0o666 without the umask. */
  mode?: number
  /** Adds to the file instead of replacing it. Default: false. */
  append?: boolean
  /** Aborting takes the write back. */
  signal?: AbortSignal
}

/** Options of {@link Files.list}. */
export interface FileListOptions {
  /** Lists directories below as well. Symlinks are not followed. Default: false. */
  recursive?: boolean
  /** Levels to list, 1 to 4294967295; above 1 only with `recursive`. Default: all. */
  maxDepth?: number
}

/** Options of {@link Files.copy}. */
export interface FileCopyOptions {
  /** Copies directories with their content, and symlinks as symlinks. Default: false. */
  recursive?: boolean
}

/** Options of {@link Files.remove}. */
export interface FileRemoveOptions {
  /** Removes directories with their content. Default: false. */
  recursive?: boolean
}

/** Options of {@link Files.watch}. */
export interface FileWatchOptions {
  /** Watches directories below as well, also new ones. Default: true. */
  recursive?: boolean
  /** Aborting ends the iteration. */
  signal?: AbortSignal
}

/**
 * Files as the commands of a session see them: with their user, their view and their rules.
 *
 * Rejects with SandboxError, whose `path` names the file: FILE_NOT_FOUND, FILE_EXISTS, NOT_A_DIRECTORY, IS_A_DIRECTORY,
 * PERMISSION_DENIED, FILE_TOO_LARGE, NO_SPACE or INVALID_PATH.
 */
export interface Files {
  /** The content of a regular file. Others, like FIFOs and devices, are INVALID_PATH. */
  read<E extends Encoding = 'utf8'>(path: FilePath, options?: FileReadOptions<E>): Promise<Output<E>>
  /** The content as a stream. The file is opened by the first read, and errors reject it. */
  readStream(path: FilePath, options?: FileStreamOptions): ReadableStream<Uint8Array>
  /**
   * Writes a file and makes missing parents. The file is replaced as a whole when everything was written: a reader sees
   * the old content or the new, and a failed write leaves the old.
   */
  write(
    path: FilePath,
    data: string | Uint8Array | AsyncIterable<string | Uint8Array> | ReadableStream<string | Uint8Array>,
    options?: FileWriteOptions,
  ): Promise<FileInfo>
  /** What is in a directory, sorted by path. Default: the session's directory. */
  list(path?: FilePath, options?: FileListOptions): Promise<FileInfo[]>
  /** A file, where symlinks lead to; null when there is none. */
  stat(path: FilePath): Promise<FileInfo | null>
  /** Whether {@link Files.stat} finds a file. */
  exists(path: FilePath): Promise<boolean>
  /** Makes a directory and its missing parents. FILE_EXISTS when it is there already. */
  mkdir(path: FilePath): Promise<void>
  /** Renames a file or a directory. A file in its place is replaced. */
  rename(from: FilePath, to: FilePath): Promise<void>
  /** Copies a file, which may replace another; with `recursive` also a directory, to where nothing is. */
  copy(from: FilePath, to: FilePath, options?: FileCopyOptions): Promise<void>
  /** Removes a file, a symlink itself, or an empty directory; with `recursive` any directory. */
  remove(path: FilePath, options?: FileRemoveOptions): Promise<void>
  /**
   * Changes of a file or below a directory, from this call on. Breaking out of the loop ends the watch; the iteration
   * ends by itself when the watched directory is deleted.
   */
  watch(path?: FilePath, options?: FileWatchOptions): AsyncIterableIterator<FileEvent, undefined>
}
