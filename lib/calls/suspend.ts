/** Sandboxes as files: suspended here, and resumed here or on another machine. */

import { oneOf } from '../schema/constructors.js'
import { table } from '../schema/kind.js'
import { count } from '../schema/numbers.js'
import { abortSignal } from '../schema/signals.js'

/** Options of {@link Sandbox.suspend}. */
export interface SuspendOptions {
  /**
   * What happens if programs use the workspace. 'end' stops them, and they end with the sandbox; 'reject' rejects with
   * WORKSPACE_BUSY, which names them. Default: 'end'.
   */
  busy?: 'end' | 'reject'
  /** Ends the wait for running commands: the call rejects with an AbortError, and nothing is written. Default: none. */
  signal?: AbortSignal
}

export const suspendOptions = table<SuspendOptions>()({
  busy: { ...oneOf(['end', 'reject']), default: 'end' },
  signal: abortSignal,
})

/** What {@link Sandbox.suspend} has written. */
export interface Suspended {
  /** The bytes of the archive. */
  bytes: number
  /** How many files and directories it has: those that differ from the real directory. 0 without a copy-on-write workspace. */
  files: number
  /** The ids of its sessions, sorted. */
  sessions: string[]
  /**
   * What it does not have: background processes, jobs and open descriptors, and of files the owners, set-user-ID bits and extended
   * attributes. Texts like `process server`, `session 'build': job 1: sleep 60` and `socket run/agent.sock`.
   */
  missing: string[]
}

/** How {@link Sandbox.resume} goes on with an archive. */
export interface ArchiveOptions {
  /**
   * What happens if the real directory is not as it was where the archive has files, or lacks some. 'reject' rejects with
   * WORKSPACE_CONFLICT and `paths`; 'report' lists all in `differences`. Default: 'reject'.
   */
  onDifference?: 'reject' | 'report'
  /** Maximum bytes of the files in the archive, 0 to Number.MAX_SAFE_INTEGER. Default: 8589934592 (8 GiB). */
  maxBytes?: number
}

export const archiveOptions = table<ArchiveOptions>()({
  onDifference: { ...oneOf(['reject', 'report']), default: 'reject' },
  maxBytes: { ...count(0, Number.MAX_SAFE_INTEGER), default: 8 * 1024 ** 3 },
})
