/**
 * A service as callers hold it: its current process, its health and its restart.
 */
import type { Service as PublicService, ServiceFailure, ServiceHealth } from '../public/index.js'
import type { ServiceBackend } from './backend.js'
import { Process } from './process.js'

export class Service extends Process implements PublicService {
  readonly #backend: ServiceBackend

  constructor(backend: ServiceBackend) {
    super(backend)
    this.#backend = backend
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
