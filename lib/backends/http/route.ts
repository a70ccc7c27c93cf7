/**
 * The way to the server of a client, and what the client has to know about it.
 */
import type { LostSandbox, SandboxError } from '../../calls/index.js'
import type { Socket } from './socket.js'

/** Where requests go. */
export interface Target {
  /** Without a slash at the end. */
  url: string
  /** Added to the headers of each request. */
  headers: Record<string, string>
}

export interface Route {
  /** Resolves when the server can take requests. Rejects with the error of the call. */
  target(stop: AbortSignal): Target | Promise<Target>
  /** Called when a request is sent. */
  used(): void
  /** Why the server cannot be reached any more; undefined while it may come back. */
  lost(): Promise<LostSandbox['reason'] | undefined>
  /** The sandbox, for messages. */
  readonly name: string
  /** Whether all replies must come from one instance of the server. */
  readonly isPinned: boolean
  /** That instance; undefined: that of the first reply. */
  readonly instance: string | undefined
  /** Begins to open a WebSocket; undefined where there are none. */
  socket(url: string, headers: Record<string, string>): Socket | undefined
}

/** What the ways to a server have in common that is always at the same place. */
export const DIRECT: Pick<Route, 'instance' | 'isPinned' | 'used' | 'lost'> = {
  instance: undefined,
  isPinned: false,
  used() {},
  lost: async () => undefined,
}

/** Makes the error of a call whose sandbox is lost. */
export type LossError = (reason: LostSandbox['reason']) => SandboxError
