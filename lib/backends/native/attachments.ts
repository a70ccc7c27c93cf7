/** What is attached to sessions from this program, and ends with them: holds, forwards of ports, calls of host commands. */
import type { Duplex } from 'node:stream'
import type { Forwarding } from '../../calls/index.js'
import { Forwards, type Place } from '../../sandbox/forwards.js'
import { SessionHolds } from './holds.js'

export class Attachments {
  readonly holds = new SessionHolds()
  readonly #connect: (sessionId: string | undefined, port: number) => Promise<Duplex>
  /** Of each session, and of the sandbox itself. */
  readonly #forwards = new Map<string | undefined, Forwards>()
  /** Open connections, with the session that a call of a host command comes from. */
  readonly #connections = new Map<Duplex, string | undefined>()

  /** `connect` connects to a port of a session, or of the first that listens on it. */
  constructor(connect: (sessionId: string | undefined, port: number) => Promise<Duplex>) {
    this.#connect = connect
  }

  forward(sessionId: string | undefined, port: number, place: Place): Promise<Forwarding> {
    const own = this.#forwards.get(sessionId) ?? new Forwards((inner) => this.#connect(sessionId, inner))
    this.#forwards.set(sessionId, own)
    return own.forward(port, place)
  }

  /** Keeps a connection until it closes. `caller`: the session that has made it, with which it ends. */
  add(connection: Duplex, caller?: string): void {
    this.#connections.set(connection, caller)
    connection.once('close', () => this.#connections.delete(connection))
  }

  /** Ends the holds and forwards of a session whose end begins. A call that ended before it would change how its caller ends. */
  beginEnd(sessionId: string): void {
    this.holds.end(sessionId)
    this.#forwards.get(sessionId)?.close()
    this.#forwards.delete(sessionId)
  }

  /** Ends all of a session. */
  end(sessionId: string): void {
    this.beginEnd(sessionId)
    for (const [connection, caller] of this.#connections) if (caller === sessionId) connection.destroy()
  }

  /** Ends everything, with the sandbox. */
  endAll(): void {
    this.holds.endAll()
    for (const forwards of this.#forwards.values()) forwards.close()
    this.#forwards.clear()
    for (const connection of this.#connections.keys()) connection.destroy()
  }
}
