/**
 * What a client has started on the server, and what ends with the client.
 *
 * An id alone does not identify a process: the process may have ended and been forgotten, and another client may use the id
 * again.
 */
import { listProcesses, type NamedProcess } from '../../protocol/endpoints.js'
import type { Connection } from './connection.js'

/** A shorter list is not pruned. */
const FEW = 256

export class Owned {
  readonly sessions = new Set<string>()
  /** Pending requests that create something, which must not outlive the client. */
  readonly #starting = new Set<Promise<unknown>>()
  readonly #connection: Connection
  /** Their instances by id. */
  readonly #processes = new Map<string, string>()
  #pruneAt = FEW

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /** Tracks such a request until it settles. */
  async starting<T>(request: Promise<T>): Promise<T> {
    this.#starting.add(request)
    try {
      return await request
    } finally {
      this.#starting.delete(request)
    }
  }

  /** Resolves when all of these requests have settled. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#starting)
  }

  /** Ids of the processes that this client has started. */
  get processes(): string[] {
    return [...this.#processes.keys()]
  }

  addSession(id: string): string {
    this.sessions.add(id)
    return id
  }

  addProcess(info: NamedProcess): NamedProcess {
    this.#processes.set(info.id, info.instance)
    if (this.#processes.size >= this.#pruneAt) this.#prune()
    return info
  }

  #prune(): void {
    this.#pruneAt = Number.POSITIVE_INFINITY
    // The reply may lack processes that are started meanwhile.
    const before = [...this.#processes.keys()]
    this.runningProcesses()
      .then((processes) => {
        const running = processes.map(({ id }) => id)
        for (const id of before) if (!running.includes(id)) this.#processes.delete(id)
      })
      // The server is unavailable: the next prune tries again.
      .catch(() => {})
      .finally(() => {
        this.#pruneAt = Math.max(FEW, 2 * this.#processes.size)
      })
  }

  /** The processes that this client has started and that still run. */
  async runningProcesses(): Promise<NamedProcess[]> {
    if (this.#processes.size === 0) return []
    const query = { status: 'starting,running' }
    const processes = await this.#connection.call(listProcesses, { query })
    return processes.filter(({ id, instance }) => this.#processes.get(id) === instance)
  }
}
