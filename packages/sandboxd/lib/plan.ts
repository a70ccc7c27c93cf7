/** How sandboxd listens: its options and those that it shares with the server, checked. */
import type { Logger } from 'nacre'
export interface SandboxdPlan {
  host: string
  grpcPort: number
  restPort: number
  root: string
  metadataPrefix: string
  /** Calls at a time. */
  maxRequests: number
  maxConnections: number
  maxHeaderBytes: number
  headersTimeout: number
  keepAliveTimeout: number
  logger: Logger | undefined
}
