/** Checks the arguments of workspace and checkpoint calls. */
import { OptionError, SandboxError } from '../base/errors.js'
import { checkpointOptions, forkOptions } from '../calls/checkpoint.js'
import {
  workspaceChangesOptions,
  workspaceCommitOptions,
  workspaceDiffOptions,
  workspaceDiscardOptions,
} from '../calls/workspace.js'
import type { OptionValues } from '../schema/kind.js'
import { count as counted } from '../schema/numbers.js'
import type { CheckedPath } from '../schema/paths.js'
import { describe, quote, readArgument, readOptions, readWithDefaults } from '../schema/read.js'

/** What all calls with changes take. */
export interface ChangesPlan {
  /** As the caller gave them: the backend knows the directory that they are relative to. */
  paths?: CheckedPath[] | undefined
  signal?: AbortSignal | undefined
}

export interface DiffPlan extends ChangesPlan {
  maxBytes: number
}

export interface CommitPlan extends ChangesPlan {
  force: boolean
  sync: boolean
}

export type CheckpointPlan = OptionValues<typeof checkpointOptions>

export interface ForkPlan extends OptionValues<typeof forkOptions> {
  count: number
}

const forkCount = counted(1, 256)

export function planChanges(options: unknown): ChangesPlan {
  return readOptions(workspaceChangesOptions, options, 'workspace.changes')
}

export function planDiff(options: unknown): DiffPlan {
  return readWithDefaults(workspaceDiffOptions, options, 'workspace.diff')
}

export function planCommit(options: unknown): CommitPlan {
  return readWithDefaults(workspaceCommitOptions, options, 'workspace.commit')
}

export function planDiscard(options: unknown): ChangesPlan {
  return readOptions(workspaceDiscardOptions, options, 'workspace.discard')
}

export function planCheckpoint(options: unknown): CheckpointPlan {
  return readOptions(checkpointOptions, options, 'checkpoint')
}

/** `isOne`: called without a count, so the caller gets one sandbox and no list. The options come first then. */
export function planFork(first: unknown, second: unknown): ForkPlan & { isOne: boolean } {
  const hasOptions = second === undefined && typeof first === 'object' && first !== null
  const isOne = first === undefined || hasOptions
  const count = isOne ? 1 : readArgument(forkCount.read, first, 'count')
  return { count, isOne, ...readOptions(forkOptions, hasOptions ? first : second, 'fork') }
}

/**
 * Calls `use` with the number of a checkpoint, given by itself or by its id. An id that none can have is unknown, if there is
 * a workspace. Not async: what is called next comes after it.
 */
export function withCheckpoint<T>(
  point: unknown,
  checkpoints: { list(): Promise<unknown> },
  use: (number: number) => Promise<T>,
): Promise<T> {
  const id = readArgument(
    (value, name) => {
      const found = typeof value === 'object' && value !== null ? (value as { id?: unknown }).id : value
      if (typeof found === 'string') return found
      throw new OptionError(
        'INVALID_OPTION',
        `${name} must be a checkpoint or its id; got ${describe(value)}`,
      )
    },
    point,
    'checkpoint',
  )
  if (/^[1-9][0-9]{0,14}$/.test(id)) return use(Number(id))
  return checkpoints.list().then(() => {
    throw new SandboxError('CHECKPOINT_NOT_FOUND', `there is no checkpoint ${quote(id)}`)
  })
}
