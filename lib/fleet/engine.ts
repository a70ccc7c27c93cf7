/** What a fleet needs from the place where its sandboxes are. Arguments have been checked. */
import type { FleetSandbox } from '../public/fleet.js'
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

export interface Engine {
  create(request: CreateRequest): Promise<FleetSandbox>
  get(id: string, signal: AbortSignal | undefined): Promise<FleetSandbox | null>
  list(signal: AbortSignal | undefined): Promise<FleetSandbox[]>
  delete(id: string, signal: AbortSignal | undefined): Promise<void>
  close(): Promise<void>
}

/** What all engines have in common. Times are in milliseconds. */
export interface FleetPlan {
  token: string | undefined
  ttl: number
  createTimeout: number
  requestTimeout: number
  reconnectTimeout: number
  logger: Logger | undefined
}
