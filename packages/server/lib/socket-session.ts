/**
 * The result of a route that answers with a WebSocket.
 */
import type { WebSocket } from 'ws'

/** Talks over an open WebSocket. `closed` is aborted when the socket is closed. */
export type Talk = (socket: WebSocket, closed: AbortSignal) => Promise<void>

export class SocketSession {
  readonly #talk: Talk

  constructor(talk: Talk) {
    this.#talk = talk
  }

  /** Begins to talk; `onEnd` is called once, when the socket is closed. */
  open(socket: WebSocket, onEnd: () => void): void {
    const closed = new AbortController()
    // An error is followed by the close.
    socket.on('error', () => {})
    socket.on('close', () => {
      closed.abort()
      onEnd()
    })
    void this.#talk(socket, closed.signal)
  }
}
