/** A cluster for tests: an API server, a controller, a router, and real pods. */
import { type FleetOptions, SandboxFleet } from '@nacre/fleet'
import { ApiServer } from './api-server.js'
import { CLAIMS, Controller, NAMESPACE } from './controller.js'
import { PORT, type PodMaker, ProcessPods, TOKEN } from './pods.js'
import { type Router, startRouter } from './router.js'

export interface ClusterOptions {
  pods?: PodMaker
  /** Number of warm pods. */
  pool?: number
  /** Milliseconds after which the router cuts a request. */
  limit?: number
  dialTimeout?: number
}

export class Cluster implements AsyncDisposable {
  readonly api = new ApiServer()
  readonly pods: PodMaker
  readonly controller: Controller
  router!: Router
  readonly #options: ClusterOptions
  readonly #fleets = new Set<SandboxFleet>()

  constructor(options: ClusterOptions = {}) {
    this.#options = options
    this.pods = options.pods ?? new ProcessPods()
    this.controller = new Controller(this.api, this.pods, options.pool ?? 0)
  }

  async start(): Promise<this> {
    const { limit = 2000, dialTimeout = 300 } = this.#options
    await this.api.start()
    const find = (namespace: string, sandbox: string) => this.controller.find(namespace, sandbox)
    this.router = await startRouter({ find, limit, dialTimeout })
    await this.controller.fill()
    return this
  }

  fleet({ direct = false, ...options }: Partial<FleetOptions> & { direct?: boolean } = {}): SandboxFleet {
    const fleet = new SandboxFleet({
      kubernetes: {
        ...{ namespace: NAMESPACE, warmPool: 'pool', port: PORT, kubeConfig: this.api.kubeConfig() },
        ...(!direct && { router: { url: this.router.url } }),
      },
      ...{ token: TOKEN, reconnectTimeout: 3000, requestTimeout: 10_000, createTimeout: 20_000 },
      ...options,
    })
    this.#fleets.add(fleet)
    return fleet
  }

  /** Names of the claims. */
  claims(): string[] {
    return this.api.store.list(CLAIMS).map(({ metadata }) => metadata.name)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#fleets].map((fleet) => fleet.close()))
    await this.controller.close()
    await this.router.close()
    await this.api.stop()
    await this.pods.close()
  }
}
