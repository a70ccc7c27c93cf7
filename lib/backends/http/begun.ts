/**
 * What a client has begun on the server, and is to end with it.
 *
 * An id alone does not say that it is still the same process: it may have ended, been forgotten, and its id been given to
 * one of somebody else. So the pid and the time of the start are compared as well. A service keeps its id for all of its
 * processes, so there the id says it.
 */
import type { Connection } from './connection.js'
import type { WireProcess } from './process.js'

/** The list is not looked through as long as it is shorter. */
const FEW = 256

export class Begun {
  readonly sessions = new Set<string>()
  /** Requests for something new, which must not come into being after the end. */
  readonly #starting = new Set<Promise<unknown>>()
  readonly #connection: Connection
  readonly #processes = new Map<string, { info: WireProcess; isService: boolean }>()
  #pruneAt = FEW

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /** Takes note of such a request. */
  async starting<T>(request: Promise<T>): Promise<T> {
    this.#starting.add(request)
    try {
      return await request
    } finally {
      this.#starting.delete(request)
    }
  }

  /** Resolves when everything that was asked for is there, or will not be. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#starting)
  }

  addSession<T extends { id: string }>(session: T): T {
    this.sessions.add(session.id)
    return session
  }

  addProcess(info: WireProcess, isService = false): WireProcess {
    this.#processes.set(info.id, { info, isService })
    if (this.#processes.size >= this.#pruneAt) this.#prune()
    return info
  }

  #prune(): void {
    this.#pruneAt = Number.POSITIVE_INFINITY
    // Those that are begun while the answer is on its way are not in it.
    const before = [...this.#processes.keys()]
    this.runningProcesses()
      .then((running) => {
        for (const id of before) if (!running.includes(id)) this.#processes.delete(id)
      })
      // The server is away for a moment: there is another time.
      .catch(() => {})
      .finally(() => {
        this.#pruneAt = Math.max(FEW, 2 * this.#processes.size)
      })
  }

  /** Ids of the processes that were begun here and still run. */
  async runningProcesses(): Promise<string[]> {
    if (this.#processes.size === 0) return []
    const { processes } = await this.#connection.call<{ processes: WireProcess[] }>({
      method: 'GET',
      path: '/v1/processes',
      query: { status: 'starting,running' },
    })
    return processes.filter((now) => this.#isOurs(now)).map(({ id }) => id)
  }

  #isOurs({ id, pid, startTime }: WireProcess): boolean {
    const begun = this.#processes.get(id)
    if (begun === undefined || begun.isService) return begun !== undefined
    return begun.info.pid === pid && begun.info.startTime === startTime
  }
}
