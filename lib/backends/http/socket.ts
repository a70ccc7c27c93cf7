/**
 * WebSockets of the runtime: browsers, Bun, Deno and Node from version 22 have them.
 *
 * They cannot send headers everywhere, so the token is a subprotocol. A client with a `fetch` or headers of its own has
 * none: its WebSockets would take another way than its requests.
 */

/** What the client uses of a WebSocket. */
export interface Socket {
  readonly readyState: number
  addEventListener(type: 'open' | 'error', listener: () => void): void
  addEventListener(type: 'close', listener: (event: { code: number }) => void): void
  addEventListener(type: 'message', listener: (event: { data: unknown }) => void): void
  send(data: Uint8Array): void
  close(): void
  /** Closes it without waiting for the server. Not every class has it. */
  terminate?(): void
}

type SocketClass = new (url: string, protocols: string[]) => Socket

/** The subprotocols that a client with this token offers. */
export function socketProtocols(token: string | undefined): string[] {
  return ['nacre.terminal', ...(token === undefined ? [] : [`nacre.token.${encodeURIComponent(token)}`])]
}

/** Begins to open a WebSocket; undefined where the runtime has none, or refuses the token. */
export function openSocket(url: string, protocols: string[]): Socket | undefined {
  const { WebSocket } = globalThis as { WebSocket?: SocketClass }
  try {
    return WebSocket && new WebSocket(url.replace(/^http/, 'ws'), protocols)
  } catch {
    return undefined
  }
}
