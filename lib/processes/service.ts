/**
 * A service as callers hold it: its process at the moment, whether it does its work, and how to start it anew.
 */
import type {
  KillOptions,
  ProcessStatus,
  Service as PublicService,
  ServiceFailure,
  ServiceHealth,
  Signal,
} from '../../index.js'
import type { Engine } from '../engine.js'
import { planKill } from '../options/logs.js'
import { isHealthy } from './health.js'
import { Process } from './process.js'
import type { ServiceLife } from './service-life.js'

export class Service extends Process implements PublicService {
  readonly #engine: Engine
  readonly #life: ServiceLife

  constructor(engine: Engine, life: ServiceLife) {
    super(engine, () => life.handle)
    this.#engine = engine
    this.#life = life
  }

  override get status(): ProcessStatus {
    return this.#life.isStarting ? 'starting' : super.status
  }

  get restarts(): number {
    return this.#life.restarts
  }

  get lastFailure(): ServiceFailure | null {
    return this.#life.lastFailure ?? null
  }

  async getHealth(): Promise<ServiceHealth> {
    const healthy =
      !this.#life.isStarting && (await isHealthy(this.#engine, this.#life.handle, this.#life.plan))
    const { status, restarts, lastFailure } = this
    return { healthy, status, restarts, lastFailure }
  }

  /** Also when it waits for its next start. */
  override async kill(signal?: Signal, options?: KillOptions): Promise<boolean> {
    return this.#life.kill(planKill(signal, options, this.#life.handle.killDefaults, 'kill'))
  }

  async restart(): Promise<void> {
    await this.#life.restart()
  }
}
