/** Services: background processes with a health check and restarts. */

import type { Command } from './command.js'
import type { Process, ProcessExit, ProcessOptions, ProcessStatus } from './process.js'
import type { Sandbox } from './sandbox.js'
import type { PortOptions } from './waits.js'

/** When a service counts as ready. `timeout` in ms is for all attempts together, 0 = none. Default: 30000. */
export type HealthCheck =
  | (PortOptions & { port: number; timeout?: number })
  | {
      /** A line of the log, as for {@link Process.waitForLog}. */
      log: string | RegExp
      timeout?: number
    }
  | {
      /** A command that must succeed. It runs with the session, directory and environment of the service. */
      command: Command
      /** Milliseconds between two attempts, each of which has 10 s. Default: 500. */
      interval?: number
      timeout?: number
    }

/** Options of {@link Sandbox.startService}. */
export interface ServiceOptions extends ProcessOptions {
  healthCheck: HealthCheck
  /**
   * Whether to start the process again, with the same id, after a failure: an exit code other than 0, a signal from outside
   * or its memory limit. Default: 'never'.
   */
  restart?: 'never' | 'on-failure'
  /**
   * Milliseconds before the first restart, 1 to 2147483647. Each failure in a row doubles the delay, up to 30 s;
   * after a minute without a failure it starts again. Default: 500.
   */
  restartDelay?: number
  input?: string | Uint8Array | 'pipe'
}

/** A failure of a service's process. */
export interface ServiceFailure extends ProcessExit {
  endTime: Date
  /** The last lines of its log. The log itself is dropped when the next process starts. */
  logTail: string
}

/** The health of a service. */
export interface ServiceHealth {
  /** Whether its health check passes. With a check of the log: whether the process runs. */
  healthy: boolean
  status: ProcessStatus
  /** Number of restarts. */
  restarts: number
  /** null without a failure. */
  lastFailure: ServiceFailure | null
}

/**
 * A process with a health check. The members of {@link Process} are those of the current process. `kill` ends the service
 * for good. `status` is 'starting' until the process is ready, and before a restart.
 */
export interface Service extends Process {
  readonly restarts: number
  /** null without a failure. */
  readonly lastFailure: ServiceFailure | null
  /** Runs the health check. */
  getHealth(): Promise<ServiceHealth>
  /**
   * Kills the process and starts it again, even after its end or a kill; resolves when it is ready.
   *
   * Rejects as {@link Sandbox.startService} does.
   */
  restart(): Promise<void>
}
