/** Files and their changes. Paths are bytes. */

export interface NativeFile {
  path: string
  /** When the path is not UTF-8. */
  pathBytes?: Buffer
  kind: 'file' | 'directory' | 'symlink' | 'other'
  size: number
  mode: number
  /** Milliseconds since the epoch. */
  modified: number
  target?: string
  /** Of a file that is read: what differs when the path has another file, or the file another content. */
  version?: string
}

export interface NativeFileChange {
  kind: 'created' | 'modified' | 'deleted' | 'renamed' | 'overflow'
  path: string
  oldPath?: string
}

/** A call that changes files and gives nothing. */
export interface NativeFileAction {
  kind: 'mkdir' | 'rename' | 'copy' | 'remove'
  path: Uint8Array
  to?: Uint8Array
  recursive: boolean
  /** A root that the path does not leave; not of `rename` and `copy`. */
  root?: string | undefined
}

export interface NativeFileWrite {
  path: Uint8Array
  mode?: number | undefined
  append: boolean
  /** A root that the path does not leave. */
  root?: string | undefined
}

/** What is read of a file when it is opened. */
export interface NativeFileRead {
  path: Uint8Array
  position: number
  length: number
  /** A larger file is refused. */
  maxSize?: number | undefined
  /** A root that the path does not leave. */
  root?: string | undefined
}
