/** A durable job. */
import type { NativeCommand } from './command.js'
import type { NativeLimits } from './process.js'

/** A durable job to start. */
export interface NativeJobStart extends NativeCommand {
  jobId: string
  /** As displayed. */
  command: string
  processName?: string
  /** 0 = none. */
  timeout: number
  graceMs: number
  limits?: NativeLimits
  stdin?: Uint8Array
}

export type { JobRecord as NativeJob, JobState as NativeJobStatus } from '../jobs/record.js'
