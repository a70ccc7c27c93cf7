/** What the engine tells. */
import type { NativeResult } from './exec.js'
import type { NativeFile, NativeFileChange } from './file.js'
import type { NativeJob, NativeJobStatus } from './job.js'
import type { NativeLog, NativeProcess, NativeStats } from './process.js'

export interface NativeEvent {
  id: number
  kind: 'start' | 'output' | 'result' | 'done' | 'error' | 'log'
  /** Of `start`. */
  pid?: number
  /** Of `output`: 1 is stdout, 2 is stderr. */
  stream?: number
  /** At most 256 KiB; of `done`: a part of a job's output. */
  data?: Buffer
  /** Of `result`; of `error` when there is a result so far. */
  result?: NativeResult
  /** Of `error`: a code of SandboxError. Of `log`: the level. */
  code?: string
  message?: string
  /** Of `done`, by call. */
  process?: NativeProcess
  killed?: boolean
  log?: NativeLog
  stats?: NativeStats
  /** Where the tree listens: here, or inside a network namespace of its own. */
  listens?: 'no' | 'here' | 'inside'
  job?: NativeJob
  jobs?: NativeJob[]
  jobStatus?: NativeJobStatus
  file?: NativeFile
  files?: NativeFile[]
  changes?: NativeFileChange[]
  /** What is open now. */
  handle?: number
  /** Of `error`: the file that it is about. */
  path?: string
  /** There was nothing after `data`. */
  atEnd?: boolean
}
