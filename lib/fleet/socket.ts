/** WebSockets with headers, which a router needs. Not every runtime has them by itself. */
import { WebSocket } from 'ws'
import type { Socket } from '../backends/http/socket.js'

/** Begins to open a WebSocket to a terminal. */
export function openSocket(url: string, headers: Record<string, string>): Socket {
  const socket = new WebSocket(url.replace(/^http/, 'ws'), ['nacre.terminal'], { headers })
  socket.binaryType = 'arraybuffer'
  return socket as unknown as Socket
}
