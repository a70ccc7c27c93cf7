/** What the engine reports. */
import type { NativeResult, NativeRunning } from './exec.js'
import type { NativeFeed } from './feed.js'
import type { NativeFile, NativeFileChange } from './file.js'
import type { NativeJob, NativeJobStatus } from './job.js'
import type { NativeLog, NativeLogLines, NativeProcess, NativeStats, NativeWaiting } from './process.js'
import type {
  NativeChange,
  NativeCommit,
  NativeNamed,
  NativePoint,
  NativeRollback,
  NativeUsage,
} from './workspace.js'

export interface NativeEvent {
  id: number
  kind: 'start' | 'output' | 'result' | 'done' | 'error' | 'log'
  /** In `start`. */
  pid?: number
  /** In `output`: 1 is stdout, 2 is stderr. */
  stream?: number
  /** At most 256 KiB. In `done`: a part of a job's output, or a whole patch. */
  data?: Buffer
  /** In `result`; also in `error` if there is a partial result. */
  result?: NativeResult
  /** In `error`, a code of SandboxError; in `log`, the level. */
  code?: string
  message?: string
  /** In `done`; which of the following are set depends on the call. */
  process?: NativeProcess
  killed?: boolean
  running?: NativeRunning[]
  feed?: NativeFeed
  log?: NativeLog
  logLines?: NativeLogLines
  /** What a waitFor was for. */
  first?: 'exit' | 'input' | 'log' | 'idle' | 'timeout'
  stats?: NativeStats
  waiting?: NativeWaiting
  /** Where a process of the tree listens: here, or inside its own network namespace. */
  listens?: 'no' | 'here' | 'inside'
  job?: NativeJob
  jobs?: NativeJob[]
  jobStatus?: NativeJobStatus
  file?: NativeFile
  files?: NativeFile[]
  changes?: NativeFileChange[]
  workspaceChanges?: NativeChange[]
  usage?: NativeUsage
  commit?: NativeCommit
  discarded?: number
  workspaces?: NativeNamed[]
  points?: NativePoint[]
  rollback?: NativeRollback
  forked?: boolean
  /** The handle of what was opened. */
  handle?: number
  /** In `error`: the file concerned. */
  path?: string
  /** In `error`: the paths in conflict. */
  paths?: string[]
  /** Nothing follows `data`. */
  atEnd?: boolean
}
