/** Files and their changes. Paths are bytes. */

export interface NativeFile {
  path: string
  /** Set if the path is not UTF-8. */
  pathBytes?: Buffer
  kind: 'file' | 'directory' | 'symlink' | 'other'
  size: number
  mode: number
  /** Milliseconds since the epoch. */
  modified: number
  target?: string
  /** For an opened file: changes when the path names another file, or the file's content changes. */
  version?: string
}

export interface NativeFileChange {
  kind: 'created' | 'modified' | 'deleted' | 'renamed' | 'overflow'
  path: string
  /** Set if the path is not UTF-8. */
  pathBytes?: Buffer
  oldPath?: string
  oldPathBytes?: Buffer
}

/** A call that changes files and returns nothing. */
export interface NativeFileAction {
  kind: 'mkdir' | 'rename' | 'copy' | 'remove'
  path: Uint8Array
  to?: Uint8Array
  recursive: boolean
  /** A root that the path cannot leave; not for `rename` and `copy`. */
  root?: string | undefined
}

export interface NativeFileWrite {
  path: Uint8Array
  mode?: number | undefined
  append: boolean
  /** A root that the path cannot leave. */
  root?: string | undefined
}

/** What to read when a file is opened. */
export interface NativeFileRead {
  path: Uint8Array
  position: number
  length: number
  /** A larger file is refused. */
  maxSize?: number | undefined
  /** A root that the path cannot leave. */
  root?: string | undefined
}
