/** What processes, sessions and sandboxes use. */

import { number, reply } from '../schema/reply.js'

/** The resources that a process and its descendants use. */
export interface ProcessStats {
  /** Processor time so far, in ms. */
  cpuTime: number
  /** Bytes. */
  memory: number
  /** The maximum so far, in bytes. */
  memoryPeak: number
  /** Number of processes. */
  pids: number
  /** Bytes read from and written to disks. */
  ioRead: number
  ioWrite: number
}

export const processStats = reply<ProcessStats>({
  cpuTime: number,
  memory: number,
  memoryPeak: number,
  pids: number,
  ioRead: number,
  ioWrite: number,
})

/** The resources that everything in a session uses: its bash, commands, background jobs and processes. */
export interface SessionStats extends ProcessStats {
  /**
   * Open file descriptors of its processes. Those of programs that this process may not look into count as 0, like
   * programs of another user.
   */
  openFiles: number
  /** Number of different terminals that its processes have. */
  terminals: number
}

export const sessionStats = reply<SessionStats>({
  ...processStats.fields,
  openFiles: number,
  terminals: number,
})

/** The resources that all sessions of a sandbox use. `memoryPeak` is the sum of those of the sessions. */
export interface SandboxStats extends SessionStats {
  /** Number of open sessions. The default session counts from its first use. */
  sessions: number
}

export const sandboxStats = reply<SandboxStats>({ ...sessionStats.fields, sessions: number })
