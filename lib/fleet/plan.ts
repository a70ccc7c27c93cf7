/** What callers of a fleet want. Arguments have been checked. */
import type { Logger } from '../public/index.js'

export interface CreateRequest {
  id: string | undefined
  /** Milliseconds. */
  ttl: number
  labels: Record<string, string>
  /** Milliseconds. */
  timeout: number
  signal: AbortSignal | undefined
}

/** Times are in milliseconds. */
export interface FleetPlan {
  token: string | undefined
  ttl: number
  createTimeout: number
  requestTimeout: number
  reconnectTimeout: number
  logger: Logger | undefined
}
