/** A durable job and its state, as stored in its directory. */

export interface JobRecord {
  jobId: string
  dir: string
  outputFile: string
  exitFile: string
  pgid: number
  cgroup?: string
  processName?: string
  createdAt: string
  /** Only set for jobs that nacre started. */
  command?: string
  /** Only set in a list. */
  status?: JobState
}

export interface JobState {
  state: 'running' | 'exited' | 'crashed'
  exitCode?: number
  signal?: number
  reason?: 'exit' | 'signal' | 'timeout' | 'cancelled' | 'oom' | 'killed' | 'reboot'
  alive: boolean
  endedAt?: string
  duration?: number
  outputLost: boolean
}
