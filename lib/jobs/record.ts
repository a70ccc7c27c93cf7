/** A durable job and its state, as its directory has them. */

export interface JobRecord {
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
