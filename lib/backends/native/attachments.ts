/** What is attached to sessions from this program, and ends with them: holds, forwards of ports, calls of host commands. */
import type { Duplex } from 'node:stream'
import type { Forwarding } from '../../calls/index.js'
import { type Place, SessionForwards } from '../../sandbox/forwards.js'
import { SessionHolds } from './holds.js'

export class Attachments {
  readonly holds = new SessionHolds()
  readonly #forwards: SessionForwards
  /** Open connections, with the session that a call of a host command comes from. */
  readonly #connections = new Map<Duplex, string | undefined>()

  /** `connect` connects to a port of a session, or of the first that listens on it. */
  constructor(connect: (sessionId: string | undefined, port: number) => Promise<Duplex>) {
    this.#forwards = new SessionForwards(connect)
  }

  forward(sessionId: string | undefined, port: number, place: Place): Promise<Forwarding> {
    return this.#forwards.forward(sessionId, port, place)
  }

  /** Keeps a connection until it closes. `caller`: the session that has made it, with which it ends. */
  add(connection: Duplex, caller?: string): void {
    this.#connections.set(connection, caller)
    connection.once('close', () => this.#connections.delete(connection))
  }

  /** Ends all of a session. */
  end(sessionId: string): void {
    this.holds.end(sessionId)
    this.#forwards.end(sessionId)
    for (const [connection, caller] of this.#connections) if (caller === sessionId) connection.destroy()
  }

  /** Ends everything, with the sandbox. */
  endAll(): void {
    this.holds.endAll()
    this.#forwards.endAll()
    for (const connection of this.#connections.keys()) connection.destroy()
  }
}
