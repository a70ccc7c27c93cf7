/**
 * Changes of sandboxes as events: Engine.IO 4 and Socket.IO 5 over WebSockets, as far as a client that only listens needs them.
 * https://socket.io/docs/v4/engine-io-protocol/ and https://socket.io/docs/v4/socket-io-protocol/
 */

import { randomUUID } from 'node:crypto'
import { clock } from 'nacre/internal'
import { WebSocket } from 'ws'

const PING_INTERVAL = 25_000
const MOST_LISTENERS = 1000
/** Clients that have not sent the key yet. More of them end the oldest, so that they keep no listener out. */
const MOST_WAITING = 64
const TRY_LATER = 1013
/** Milliseconds until a client must have sent the key. */
const KEY_TIME = 10_000
/** A client that does not take its events loses the connection. */
const MOST_WAITING_BYTES = 4 * 1024 * 1024

export class Events {
  /** The oldest first. */
  readonly #waiting = new Set<WebSocket>()
  readonly #listeners = new Set<WebSocket>()

  /** `mayListen` checks the key of a client. */
  open(socket: WebSocket, mayListen: (key: string) => boolean): void {
    const [oldest] = this.#waiting
    if (this.#waiting.size >= MOST_WAITING) oldest?.terminate()
    this.#waiting.add(socket)
    const open = { sid: randomUUID(), upgrades: [], pingInterval: PING_INTERVAL, pingTimeout: 20_000 }
    send(socket, `0${JSON.stringify({ ...open, maxPayload: 1_000_000 })}`)
    const pings = clock.setInterval(() => send(socket, '2'), PING_INTERVAL)
    const waiting = clock.setTimeout(() => socket.terminate(), KEY_TIME)
    socket.on('close', () => {
      clock.clearInterval(pings)
      clock.clearTimeout(waiting)
      this.#waiting.delete(socket)
      this.#listeners.delete(socket)
    })
    socket.on('message', (data) => {
      const text = String(data)
      if (text.startsWith('41')) return socket.close()
      if (!text.startsWith('40')) return
      if (!mayListen(keyIn(text.slice(2)))) {
        send(socket, `44${JSON.stringify({ message: 'the key is wrong' })}`)
        return socket.close()
      }
      if (this.#listeners.size >= MOST_LISTENERS) return socket.close(TRY_LATER)
      clock.clearTimeout(waiting)
      this.#waiting.delete(socket)
      this.#listeners.add(socket)
      send(socket, `40${JSON.stringify({ sid: randomUUID() })}`)
    })
  }

  emit(name: string, data: object): void {
    const text = `42${JSON.stringify([name, data])}`
    for (const socket of this.#listeners) send(socket, text)
  }
}

function send(socket: WebSocket, text: string): void {
  if (socket.readyState !== WebSocket.OPEN) return
  if (socket.bufferedAmount > MOST_WAITING_BYTES) return void socket.terminate()
  socket.send(text)
}

function keyIn(text: string): string {
  try {
    return String((JSON.parse(text) as { token?: unknown }).token)
  } catch {
    return ''
  }
}
