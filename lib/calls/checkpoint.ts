/** Checkpoints and forks of a sandbox with a copy-on-write workspace: its files and the state of its shells at one moment. */

import { oneOf } from '../schema/constructors.js'
import { table } from '../schema/kind.js'
import { displayName, hostLabel } from '../schema/names.js'
import { date, list, orNull, reply, text } from '../schema/reply.js'
import { abortSignal } from '../schema/signals.js'

/** Options of {@link Sandbox.checkpoint}. */
export interface CheckpointOptions {
  /** A label for people: 1 to 256 characters. Others may have the same. Default: none. */
  name?: string
  /**
   * What happens if programs use the workspace. 'copy' stops them for the moment and copies what was changed; 'reject' rejects
   * with WORKSPACE_BUSY, which names them. Default: 'copy'.
   */
  busy?: 'copy' | 'reject'
  /** Ends the wait for running commands: the call rejects with an AbortError, and nothing is kept. Default: none. */
  signal?: AbortSignal
}

const busy = { ...oneOf(['copy', 'reject']), default: 'copy' } as const

export const checkpointOptions = table<CheckpointOptions>()({ name: displayName, busy, signal: abortSignal })

/** Options of {@link Sandbox.fork}. */
export interface ForkOptions {
  /**
   * The name of the fork: 1 to 50 characters of a-z and 0-9, with single hyphens between them. No other open fork that comes from the
   * same sandbox has it. With `count`, a number follows, like `try-1`. Default: 'fork' with a number.
   */
  name?: string
  /**
   * What happens if programs use the workspace. 'copy' stops them for the moment and copies what was changed; 'reject' rejects
   * with WORKSPACE_BUSY, which names them. Default: 'copy'.
   */
  busy?: 'copy' | 'reject'
  /** Ends the wait for running commands: the call rejects with an AbortError, and there are no forks. Default: none. */
  signal?: AbortSignal
}

export const forkOptions = table<ForkOptions>()({ name: hostLabel, busy, signal: abortSignal })

/** A moment to which a sandbox can be rolled back. */
export interface Checkpoint {
  /** Identifies it in its sandbox. */
  id: string
  /** Its label. */
  name: string | null
  /** When it was made. */
  createdAt: Date
  /** The ids of the sessions at that moment, sorted. The default session is among them once it has been used. */
  sessions: string[]
}

export const checkpoint = reply<Checkpoint>(
  { id: text, name: orNull(text), createdAt: date, sessions: list(text) },
  'Checkpoint',
)

/** What {@link Sandbox.undo} did. */
export interface Undo {
  /** The command, at most its first 1000 characters. Those that several sessions began at the same moment are lines of it. */
  command: string
  /** The ids of the background processes that it has ended. */
  endedProcesses: string[]
  /** The ids of the sessions that were created after the command began, and have ended. */
  endedSessions: string[]
  /**
   * What the shells had at that moment and do not have now: jobs, with the first line of their commands, and open
   * descriptors, as `job 1: sleep 60` and `descriptor 7`. In a session other than the default one, its id comes first:
   * `session 'build': descriptor 7`. Empty in plain mode, which does not know it.
   */
  missing: string[]
}

const left = { endedProcesses: list(text), endedSessions: list(text), missing: list(text) }

export const undo = reply<Undo>({ command: text, ...left })

/** What {@link Sandbox.rollback} did. */
export interface Rollback {
  /** The checkpoint. */
  checkpoint: Checkpoint
  /** The ids of the background processes that it has ended. */
  endedProcesses: string[]
  /** The ids of the sessions that were created after the checkpoint, and have ended. */
  endedSessions: string[]
  /**
   * What the shells had at that moment and do not have now: jobs, with the first line of their commands, and open
   * descriptors, as `job 1: sleep 60` and `descriptor 7`. In a session other than the default one, its id comes first:
   * `session 'build': descriptor 7`. Empty in plain mode, which does not know it.
   */
  missing: string[]
}

export const rollback = reply<Rollback>({ checkpoint, ...left })
