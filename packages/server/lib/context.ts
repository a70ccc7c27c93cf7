/**
 * The context of every route.
 */
import type { Logger } from 'nacre'
import type { backends } from 'nacre/internal/server'
import type { Callers } from './callers.js'
import type { Holds } from './holds.js'
import type { Metrics } from './metrics.js'
import type { Ports } from './ports/ports.js'
import type { Processes } from './processes.js'
import type { Requests } from './requests.js'
import type { Runs } from './runs.js'
import type { Uploads } from './uploads.js'

export interface ServerContext {
  backend: backends.Backend
  metrics: Metrics
  runs: Runs
  processes: Processes
  callers: Callers
  uploads: Uploads
  holds: Holds
  /** Undefined while no ports are forwarded. */
  ports: Ports | undefined
  /** The id of this run of the server. */
  instance: string
  requests: Requests
  logger: Logger | undefined
  /** Aborted when the server ends. */
  closing: AbortSignal
  /** Milliseconds after which a silent response shows that it is alive. */
  heartbeat: number
  /** Default timeouts of sessions, in milliseconds, of those that have one. */
  sessionTimeouts: Map<string, number>
}
