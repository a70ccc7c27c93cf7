/** Background processes that are waited for and kept alive. */

import type { Command } from './command.js'
import type { Process, ProcessExit, ProcessOptions, ProcessStatus } from './process.js'
import type { Sandbox } from './sandbox.js'
import type { PortOptions } from './waits.js'

/** When a service is ready. `timeout` is for all attempts together, in ms, 0 = none. Default: 30000. */
export type HealthCheck =
  | (PortOptions & { port: number; timeout?: number })
  | {
      /** A line of the log, as for {@link Process.waitForLog}. */
      log: string | RegExp
      timeout?: number
    }
  | {
      /** A command that succeeds. It runs beside the service, with its session, directory and environment. */
      command: Command
      /** Milliseconds between two attempts, each of which has 10 s. Default: 500. */
      interval?: number
      timeout?: number
    }

/** Options of {@link Sandbox.startService}. */
export interface ServiceOptions extends ProcessOptions {
  healthCheck: HealthCheck
  /**
   * What happens when the process fails: ends with another code than 0, by a signal of somebody else, or for lack of
   * memory. With 'on-failure' another is started, with the same id. Default: 'never'.
   */
  restart?: 'never' | 'on-failure'
  /**
   * Milliseconds before the first restart, 1 to 2147483647. Each failure in a row doubles them, up to 30 s; one after a
   * minute without trouble is the first again. Default: 500.
   */
  restartDelay?: number
  input?: string | Uint8Array | 'pipe'
}

/** How a process of a service has failed. */
export interface ServiceFailure extends ProcessExit {
  endTime: Date
  /** The last lines of its log, which goes when the next process is started. */
  logTail: string
}

/** How a service is. */
export interface ServiceHealth {
  /** Its health check passes. For one by log: it has passed, and the process runs. */
  healthy: boolean
  status: ProcessStatus
  /** How often it has been started again. */
  restarts: number
  /** null when it has not failed. */
  lastFailure: ServiceFailure | null
}

/**
 * A process that is to go on: the members of {@link Process} are those of the one that runs at the moment. `kill` ends it
 * for good, `status` is 'starting' while it is not ready or waits for its next start.
 */
export interface Service extends Process {
  readonly restarts: number
  /** null when it has not failed. */
  readonly lastFailure: ServiceFailure | null
  /** Looks now. */
  getHealth(): Promise<ServiceHealth>
  /**
   * Kills the process and starts it anew; resolves when it is ready. Also when it has ended or was killed.
   *
   * Rejects as {@link Sandbox.startService} does.
   */
  restart(): Promise<void>
}
