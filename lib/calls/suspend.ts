/** Sandboxes as files: suspended here, and resumed here or on another machine. */

import { oneOf } from '../schema/constructors.js'
import { table } from '../schema/kind.js'
import { count } from '../schema/numbers.js'
import { date, list, number, reply, text } from '../schema/reply.js'
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

/** What {@link SandboxClient.suspend} has left on the server. */
export interface SuspendedOnServer extends Suspended {
  /** The id of the archive, for {@link Archives}. */
  archive: string
}

export const suspendedOnServer = reply<SuspendedOnServer>(
  { archive: text, bytes: number, files: number, sessions: list(text), missing: list(text) },
  'Suspended',
)

/** What {@link SandboxClient.resume} has opened. */
export interface ResumedOnServer {
  /** As in {@link Resumed}. */
  missing: string[]
  /** As in {@link Resumed}. */
  differences: string[]
}

export const resumedOnServer = reply<ResumedOnServer>(
  { missing: list(text), differences: list(text) },
  'Resumed',
)

/** An archive that a server keeps until somebody deletes it. */
export interface ServerArchive {
  id: string
  bytes: number
  createdAt: Date
}

export const serverArchive = reply<ServerArchive>({ id: text, bytes: number, createdAt: date }, 'Archive')

/**
 * The archives in the `stateDir` of a server. They outlive the server, and another one with this `stateDir` has them. Each call
 * rejects with FILE_NOT_FOUND if there is no such archive.
 */
export interface Archives {
  /** Lists them, the oldest first. */
  list(): Promise<ServerArchive[]>
  /** Reads one. With `resume` of the client, it goes on after a broken connection. */
  readStream(id: string, options?: ArchiveReadOptions): ReadableStream<Uint8Array>
  /** Deletes one. Do so when all of it has been written elsewhere. */
  delete(id: string): Promise<void>
}

/** Options of {@link Archives.readStream}. */
export interface ArchiveReadOptions {
  /** Aborting ends the stream with an error. Default: none. */
  signal?: AbortSignal
}

export const archiveReadOptions = table<ArchiveReadOptions>()({ signal: abortSignal })

/** Options of {@link SandboxClient.resume}. */
export interface UploadOptions extends ArchiveOptions {
  /** Aborting ends the upload. The sandbox of the server is as before then, unless it has all of the archive. Default: none. */
  signal?: AbortSignal
}

export const uploadOptions = table<UploadOptions>()({ ...archiveOptions, signal: abortSignal })
