/** A durable job. */
import type { NativeCommand } from './command.js'
import type { NativeLimits } from './process.js'

/** A durable job to be started. */
export interface NativeJobStart extends NativeCommand {
  jobId: string
  /** As shown. */
  command: string
  processName?: string
  /** 0 = none. */
  timeout: number
  graceMs: number
  limits?: NativeLimits
  stdin?: Uint8Array
}

export interface NativeJob {
  jobId: string
  dir: string
  outputFile: string
  exitFile: string
  pgid: number
  cgroup?: string
  processName?: string
  createdAt: string
  /** Only of jobs of nacre's. */
  command?: string
  /** In a list. */
  status?: NativeJobStatus
}

export interface NativeJobStatus {
  state: 'running' | 'exited' | 'crashed'
  exitCode?: number
  signal?: number
  reason?: 'exit' | 'signal' | 'timeout' | 'cancelled' | 'oom' | 'killed' | 'reboot'
  alive: boolean
  endedAt?: string
  duration?: number
  outputLost: boolean
}
