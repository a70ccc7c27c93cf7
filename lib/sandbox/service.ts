/**
 * The public object for a service: its current process, health and restarts.
 */
import type { ProcessInfo, Service as PublicService, ServiceFailure, ServiceHealth } from '../public/index.js'
import type { ServiceBackend } from './backend.js'
import { Process } from './process.js'

export class Service extends Process implements PublicService {
  readonly #backend: ServiceBackend

  constructor(backend: ServiceBackend) {
    super(backend)
    this.#backend = backend
  }

  /** The processes of a service after the process with this pid, until none follows by itself or `stop` is aborted. */
  static async *successors(
    service: PublicService,
    pid: number,
    stop: AbortSignal,
  ): AsyncGenerator<ProcessInfo, undefined> {
    // An instance of another class with the same methods does not report its next process.
    if (!(#backend in service)) return undefined
    for (let last = pid; ; ) {
      const next = await service.#backend.successor(last, stop)
      if (next === null) return undefined
      yield next
      last = next.pid
    }
  }

  get restarts(): number {
    return this.#backend.restarts
  }

  get lastFailure(): ServiceFailure | null {
    return this.#backend.lastFailure
  }

  async getHealth(): Promise<ServiceHealth> {
    return this.#backend.health()
  }

  async restart(): Promise<void> {
    await this.#backend.restart()
  }
}
