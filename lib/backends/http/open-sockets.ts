/** The WebSockets of a client. They end with it, and when the server does not answer any more. */
import { onAbort } from '../../base/abort.js'
import type { Socket } from './socket.js'
import type { Watchdog } from './watchdog.js'

export class OpenSockets {
  readonly #open = new Set<Socket>()

  get size(): number {
    return this.#open.size
  }

  /** `watchdog`: asks whether the server is there while the WebSocket is open. */
  add(socket: Socket, watchdog: Watchdog | undefined): void {
    this.#open.add(socket)
    const ignore = onAbort(watchdog?.signal, () => drop(socket))
    socket.addEventListener('close', () => {
      ignore()
      watchdog?.end()
      this.#open.delete(socket)
    })
  }

  /** Ends all of them. */
  close(): void {
    for (const socket of this.#open) drop(socket)
  }
}

/** Waits for no answer of the server, where the runtime allows that. */
function drop(socket: Socket): void {
  if (socket.terminate === undefined) socket.close()
  else socket.terminate()
}
