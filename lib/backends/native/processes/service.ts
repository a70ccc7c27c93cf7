/**
 * A service on this process's engine: its current process, health and restarts.
 */

import type { ProcessInfo, ServiceFailure, ServiceHealth } from '../../../calls/index.js'
import type { KillRequest } from '../../../requests/logs.js'
import type { ServiceBackend } from '../../../sandbox/backend.js'
import type { Engine } from '../engine.js'
import { infoOf } from './handle.js'
import { isHealthy } from './health.js'
import { LocalProcess } from './process.js'
import type { ServiceLife } from './service-life.js'

export class LocalService extends LocalProcess implements ServiceBackend {
  readonly #life: ServiceLife

  constructor(engine: Engine, life: ServiceLife) {
    super(engine, () => life.handle)
    this.#life = life
  }

  override get info(): ProcessInfo {
    return this.#life.isStarting ? { ...super.info, status: 'starting' } : super.info
  }

  override get service(): ServiceBackend {
    return this
  }

  get restarts(): number {
    return this.#life.restarts
  }

  get lastFailure(): ServiceFailure | null {
    return this.#life.lastFailure
  }

  async health(): Promise<ServiceHealth> {
    const healthy = !this.#life.isStarting && (await isHealthy(this.#life.handle, this.#life.plan))
    const { restarts, lastFailure } = this
    return { healthy, status: this.info.status, restarts, lastFailure }
  }

  /** Also ends the wait for the next start. */
  override async kill(request: KillRequest): Promise<boolean> {
    return this.#life.kill(request)
  }

  async successor(pid: number, stop: AbortSignal): Promise<ProcessInfo | null> {
    const state = await this.#life.successor(pid, stop)
    return state && infoOf(state, this.handle.input)
  }

  async restart(): Promise<void> {
    await this.#life.restart()
  }
}
