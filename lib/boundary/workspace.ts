/** A copy-on-write workspace. */
import type { EntryKind } from '../calls/workspace.js'

export interface NativeWorkspaceConfig {
  /** Absolute, without links. */
  path: string
  /** Keeps the layers. */
  id?: string
  /** Of the layers; absolute. Default: in the state directory. */
  directory?: string
  memory: boolean
  maxBytes?: number
  undoSteps: number
}

/** A workspace whose layers are kept. */
export interface NativeNamed {
  name: string
  /** Absent if the note about it is damaged, or of another version. */
  path?: string
  inUse: boolean
  /** Seconds since 1970. */
  usedAt: number
}

export interface NativeEntry {
  kind: EntryKind
  /** Bytes; 0 for a directory. */
  size: number
  /** Permissions: 07777. */
  mode: number
}

export interface NativeChange {
  /** Relative to the workspace. */
  path: Buffer
  difference: 'created' | 'modified' | 'deleted' | 'replaced' | 'metadata'
  /** Absent if it is deleted. */
  now?: NativeEntry
  /** Absent if it is created. */
  before?: NativeEntry
}

export interface NativeCommit {
  applied: number
  skipped: Array<{ path: Buffer; reason: string }>
}

export interface NativePoint {
  number: number
  name?: string
  /** Milliseconds since 1970. */
  createdAt: number
  sessions: string[]
}

/** The ids of what a rollback has ended, and the command before which an automatic checkpoint was made. */
export interface NativeRollback {
  command?: string
  endedProcesses: string[]
  endedSessions: string[]
  missing: string[]
}

export interface NativeUsage {
  bytes: number
  files: number
  layers: number
}
