/** Services: background processes with a health check and restarts. */

import type { Command } from '../base/types.js'
import { serviceInput } from '../schema/command.js'
import { local, oneOf } from '../schema/constructors.js'
import { table } from '../schema/kind.js'
import { positiveMilliseconds } from '../schema/numbers.js'
import { boolean, date, number, reply, text, unlessNull } from '../schema/reply.js'
import { type ProcessExit, processExit } from './exit.js'
import {
  type Process,
  type ProcessStatus,
  processOptions,
  processStatus,
  type SessionProcessOptions,
  sessionProcessOptions,
} from './process.js'
import type { PortOptions } from './waits.js'

/**
 * The condition for a service to be ready. `timeout` limits all attempts together, in milliseconds; 0 = none.
 * Default: 30000.
 */
export type HealthCheck =
  | (PortOptions & { port: number; timeout?: number })
  | {
      /** A log line to wait for, as in {@link Process.waitForLog}. */
      log: string | RegExp
      timeout?: number
    }
  | {
      /** A command that must succeed. It runs in the session, directory and environment of the service. */
      command: Command
      /** Milliseconds between two attempts. Each attempt may take 10 s. Default: 500. */
      interval?: number
      timeout?: number
    }

/** Options of {@link Session.startService}. */
export interface SessionServiceOptions extends SessionProcessOptions {
  healthCheck: HealthCheck
  /**
   * Whether to restart the process with the same id after a failure: an exit code other than 0, a signal from outside,
   * or its memory limit. Default: 'never'.
   */
  restart?: 'never' | 'on-failure'
  /**
   * Milliseconds before the first restart, 1 to 2147483647. Each consecutive failure doubles the delay, up to 30 s. A
   * minute without a failure resets it. Default: 500.
   */
  restartDelay?: number
  /**
   * Standard input, the same after each restart. Default: end of file. 'pipe' keeps it open for later input.
   *
   * {@link Process.write} sends later input. To send the text "pipe", pass bytes.
   */
  input?: string | Uint8Array | 'pipe'
  /** Services have no channel: each restart would need another one. */
  ipc?: false
}

const noChannel = local<false>(
  (value) => value === false,
  'must be false: each restart of a service would need another channel, so start a process with ipc instead',
  'false',
)

/** Without `healthCheck`, which is required and has kinds of its own. */
export const sessionServiceOptions = table<Omit<SessionServiceOptions, 'healthCheck'>>()({
  ...sessionProcessOptions,
  input: serviceInput,
  ipc: noChannel,
  restart: { ...oneOf(['never', 'on-failure']), default: 'never' },
  restartDelay: { ...positiveMilliseconds, default: 500 },
})

/** Options of {@link Sandbox.startService}. */
export interface ServiceOptions extends SessionServiceOptions {
  /**
   * The session whose state the service starts from. Default: 'default'. An unknown id rejects with SESSION_NOT_FOUND.
   */
  sessionId?: string
}

export const serviceOptions = table<Omit<ServiceOptions, 'healthCheck'>>()({
  sessionId: processOptions.sessionId,
  ...sessionServiceOptions,
})

/** A failure of a service's process. */
export interface ServiceFailure extends ProcessExit {
  endTime: Date
  /** The last lines of the log. The log itself is dropped when the next process starts. */
  logTail: string
}

/** The health of a service. */
export interface ServiceHealth {
  /** Whether the health check passes. With a log check, whether the process is running. */
  healthy: boolean
  status: ProcessStatus
  /** Number of restarts. */
  restarts: number
  /** null without a failure. */
  lastFailure: ServiceFailure | null
}

export const serviceHealth = reply<ServiceHealth>({
  healthy: boolean,
  status: processStatus,
  restarts: number,
  lastFailure: unlessNull(reply<ServiceFailure>({ ...processExit.fields, endTime: date, logTail: text })),
})

/**
 * A process with a health check. The members of {@link Process} describe the current process. `kill` ends the service
 * permanently. `status` is 'starting' until the process is ready, and before a restart.
 */
export interface Service extends Process {
  readonly restarts: number
  /** null without a failure. */
  readonly lastFailure: ServiceFailure | null
  /** Runs the health check. */
  getHealth(): Promise<ServiceHealth>
  /**
   * Kills the process and starts it again, even if it has ended or was killed. Resolves when it is ready.
   *
   * Rejects as {@link Sandbox.startService} does.
   */
  restart(): Promise<void>
}
