/**
 * The types of the private boundary to the Rust addon: what `nacre.node` exports.
 *
 * One persistent callback per sandbox. Every asynchronous call carries a request id chosen here (1 to 2^32-1,
 * unique while pending) and ends with exactly one `result`, `done` or `error` event of that id. Times are in
 * milliseconds, sizes in bytes, signals are numbers. Everything is validated before it crosses.
 */
import type { NativeEvent } from './event.js'
import type { NativeConfig, NativeSandbox, NativeUser } from './sandbox.js'

export interface NativeAddon {
  NativeSandbox: new (config: NativeConfig, onEvent: (event: NativeEvent) => void) => NativeSandbox
  /** The home directory of a user; null where this process cannot run programs as that user. */
  homeOf(user: NativeUser): string | null
}

export type { NativeEvent } from './event.js'
export type { NativeExec, NativeExecExtras, NativeResult, NativeRunning } from './exec.js'
export type { NativeFeed, NativeFeedEvent } from './feed.js'
export type {
  NativeFile,
  NativeFileAction,
  NativeFileChange,
  NativeFileRead,
  NativeFileWrite,
} from './file.js'
export type { NativeJob, NativeJobStart, NativeJobStatus } from './job.js'
export type {
  NativeDetachedProcess,
  NativeKilledBy,
  NativeLimits,
  NativeLog,
  NativeLogLines,
  NativeLogPiece,
  NativeProcess,
  NativeProcessRef,
  NativeProcessStart,
  NativeStats,
  NativeWaiting,
} from './process.js'
export type {
  NativeCapabilities,
  NativeConfig,
  NativeIsolation,
  NativeMount,
  NativeSandbox,
  NativeSession,
  NativeUser,
} from './sandbox.js'
export type {
  NativeChange,
  NativeEntry,
  NativeNamed,
  NativePoint,
  NativeUsage,
  NativeWorkspaceConfig,
} from './workspace.js'
