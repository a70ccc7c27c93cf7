/** The session of a sandbox in this process: the methods of every session, and those that need its ports. */
import { calledBy } from '../../base/call-site.js'
import type { PortConnection, Session as PublicSession } from '../../calls/index.js'
import { Session } from '../../sandbox/session.js'
import { portNumber } from '../../schema/http.js'
import { readArgument } from '../../schema/read.js'
import type { NativeBackend } from './backend.js'

export class LocalSession extends Session implements PublicSession {
  readonly #backend: NativeBackend

  /** `hold`: the caller's. */
  constructor(backend: NativeBackend, id: string, hold?: string) {
    super(backend, id, hold)
    this.#backend = backend
  }

  async connect(port: number): Promise<PortConnection> {
    const number = readArgument(portNumber.read, port, 'port')
    return calledBy(this.connect, this.#backend.connectPort(this.id, number))
  }
}
