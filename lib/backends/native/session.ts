/** The session of a sandbox in this process: the methods of every session, and those that need its ports. */
import { calledBy } from '../../base/call-site.js'
import type * as api from '../../calls/index.js'
import { Session } from '../../sandbox/session.js'
import { portNumber } from '../../schema/http.js'
import { readArgument } from '../../schema/read.js'
import type { NativeBackend } from './backend.js'

export class LocalSession extends Session implements api.Session {
  readonly #backend: NativeBackend

  /** `hold`: the caller's. */
  constructor(backend: NativeBackend, id: string, hold?: string) {
    super(backend, id, hold)
    this.#backend = backend
  }

  async connect(port: number): Promise<api.PortConnection> {
    const number = readArgument(portNumber.read, port, 'port')
    return calledBy(this.connect, this.#backend.connectPort(this.id, number))
  }
}
