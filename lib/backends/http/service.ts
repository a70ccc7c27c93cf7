/**
 * A service on the server. `restarts`, `lastFailure` and `info` are the last known state.
 */
import type { ServiceFailure, ServiceHealth } from '../../public/index.js'
import type { ServiceBackend } from '../../sandbox/backend.js'
import type { Connection } from './connection.js'
import { HttpProcess, processPath, type WireProcess } from './process.js'

type WireFailure = Omit<ServiceFailure, 'endTime'> & { endTime: string }
type WireHealth = Omit<ServiceHealth, 'lastFailure'> & { lastFailure?: WireFailure }

export class HttpService extends HttpProcess implements ServiceBackend {
  readonly #connection: Connection
  restarts = 0
  lastFailure: ServiceFailure | null = null

  constructor(connection: Connection, info: WireProcess, hasTerminal: boolean) {
    super(connection, info, hasTerminal)
    this.#connection = connection
  }

  async health(): Promise<ServiceHealth> {
    const path = processPath(this.id, 'health')
    const { lastFailure, ...rest } = await this.#connection.call<WireHealth>({ method: 'GET', path })
    this.restarts = rest.restarts
    this.lastFailure =
      lastFailure === undefined ? null : { ...lastFailure, endTime: new Date(lastFailure.endTime) }
    await this.refresh()
    return { ...rest, lastFailure: this.lastFailure }
  }

  async restart(): Promise<void> {
    const path = processPath(this.id, 'restart')
    this.update(await this.#connection.call<WireProcess>({ path, waits: true }))
  }
}
