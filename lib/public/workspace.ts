/** Copy-on-write workspaces: what programs changed, before it becomes real. */

/** Options of a copy-on-write workspace. */
export interface WorkspaceOptions {
  /** Programs write to a private layer above the real directory. */
  mode: 'copy-on-write'
  /** The directory: an existing one, but not /. It is resolved once, at construction. Default: the sandbox's `cwd`. */
  path?: string | URL
}

/** The kind of a file. */
export type EntryKind = 'file' | 'directory' | 'symlink' | 'fifo' | 'socket' | 'device'

/** One changed path of a workspace. */
export interface Change {
  /** Relative to the workspace; '.' is the workspace itself. Bytes that are not UTF-8 appear as U+FFFD. */
  path: string
  /** The path as it is on disk. */
  pathBytes: Uint8Array
  /**
   * How it differs from the real directory. `replaced`: by another kind of file. `metadata`: only in its mode, owner or
   * extended attributes.
   */
  type: 'created' | 'modified' | 'deleted' | 'replaced' | 'metadata'
  /** What it is, or was if it is deleted. */
  kind: EntryKind
  /** Bytes; 0 for a directory. */
  size: number
  /** Permissions: 07777. */
  mode: number
  /** The entry of the real directory; null if it is created. */
  before: { kind: EntryKind; size: number; mode: number } | null
}

/** Options of {@link Workspace.changes}. */
export interface WorkspaceChangesOptions {
  /**
   * Only these paths and everything below them; relative to the workspace, or absolute inside it. Links are not followed.
   * Default: all.
   */
  paths?: (string | Uint8Array)[]
}

/** What the layers of a workspace take on disk. */
export interface WorkspaceUsage {
  /** Allocated bytes. */
  bytes: number
  /** Files and directories. */
  files: number
  /** Layers, with the one that receives the writes. */
  layers: number
}

/**
 * The copy-on-write workspace of a sandbox. All calls reject with WORKSPACE_NOT_ENABLED if the sandbox has none, and with
 * WORKSPACE_UNSUPPORTED if this machine allows none.
 */
export interface Workspace {
  /** The directory, as programs see it. */
  info(): Promise<{ path: string }>
  /**
   * Compares with the real directory as it is now, and lists the differences in the order of their bytes. Equal content and
   * times do not count. A renamed directory appears as deleted and created.
   *
   * Rejects with INVALID_PATH for a path outside the workspace.
   */
  changes(options?: WorkspaceChangesOptions): Promise<Change[]>
  /** Measures the layers. */
  usage(): Promise<WorkspaceUsage>
}
