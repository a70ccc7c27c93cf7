/** WebSockets. */
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocket, WebSocketServer } from 'ws'

export type Use = (client: WebSocket) => void | Promise<void>

/** The first protocol of Daytona that the client offers; otherwise none. */
const server = new WebSocketServer({
  noServer: true,
  clientTracking: false,
  maxPayload: 1024 * 1024,
  handleProtocols: (offered) => [...offered].find((name) => name.startsWith('X-Daytona-')) ?? false,
})

/** Completes the handshake. A client that does it wrongly gets an error, and `use` is not called. */
export function acceptSocket(request: IncomingMessage, socket: Duplex, head: Buffer, use: Use): void {
  server.handleUpgrade(request, socket, head, (client) => {
    // A client that breaks the protocol is disconnected.
    client.on('error', () => {})
    Promise.resolve(use(client)).catch(() => client.close(1011))
  })
}

/** Resolves when there is room for more. False when the client has left. */
export function sendPiece(client: WebSocket, piece: string | Uint8Array): Promise<boolean> {
  return new Promise((resolve) => {
    if (client.readyState !== WebSocket.OPEN) return resolve(false)
    client.send(piece, (error) => resolve(error === undefined || error === null))
  })
}
