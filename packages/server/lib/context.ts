/**
 * The context of every route.
 */
import type { Logger } from 'nacre'
import type { backends } from 'nacre/internal/server'
import type { Callers } from './callers.js'
import type { Holds } from './holds.js'
import type { Metrics } from './metrics.js'
import type { PortLink, PortOf } from './ports/links.js'
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
  /** Makes links to ports. Undefined while no ports are forwarded. */
  links: { link(of: PortOf, expiresIn: number): PortLink } | undefined
  /** The names of the forks that are served, too. */
  forks: { names(): string[] } | undefined
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
