/** The options of a workspace's calls. */
import type {
  CheckpointOptions,
  ForkOptions,
  WorkspaceChangesOptions,
  WorkspaceCommitOptions,
  WorkspaceDiffOptions,
  WorkspaceDiscardOptions,
} from '../calls/index.js'
import { oneOf } from '../schema/constructors.js'
import { table } from '../schema/kind.js'
import { displayName } from '../schema/names.js'
import { count } from '../schema/numbers.js'
import { abortSignal } from '../schema/signals.js'
import { flag } from '../schema/values.js'
import { workspacePaths } from '../schema/workspace.js'

/** Of `workspace.changes`. */
export const workspaceChangesOptions = table<WorkspaceChangesOptions>()({
  paths: workspacePaths,
  signal: abortSignal,
})

/** Of `workspace.diff`. */
export const workspaceDiffOptions = table<WorkspaceDiffOptions>()({
  ...workspaceChangesOptions,
  maxBytes: { ...count(1, 1 << 30), default: 256 << 20 },
})

/** Of `workspace.commit`. */
export const workspaceCommitOptions = table<WorkspaceCommitOptions>()({
  ...workspaceChangesOptions,
  force: { ...flag, default: false },
  sync: { ...flag, default: true },
})

/** Of `workspace.discard`. */
export const workspaceDiscardOptions = table<WorkspaceDiscardOptions>()({ ...workspaceChangesOptions })

const busy = { ...oneOf(['copy', 'reject']), default: 'copy' } as const

/** Of `checkpoint`. */
export const checkpointOptions = table<CheckpointOptions>()({ name: displayName, busy, signal: abortSignal })

/** Of `fork`. */
export const forkOptions = table<ForkOptions>()({ busy, signal: abortSignal })
