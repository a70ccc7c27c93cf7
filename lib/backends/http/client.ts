/** `SandboxClient`: the facade over a server. */
import type { ClientOptions, SandboxClient as PublicSandboxClient, RemoteJobs } from '../../public/client.js'
import type { Capabilities } from '../../public/index.js'
import { SandboxFacade } from '../../sandbox/facade.js'
import { Jobs } from '../../sandbox/jobs.js'
import { HttpBackend } from './backend.js'
import { planClient } from './options.js'

export class SandboxClient extends SandboxFacade implements PublicSandboxClient {
  readonly jobs: RemoteJobs
  readonly #backend: HttpBackend

  /** A fleet gives the backend that it has made. */
  constructor(options: ClientOptions | HttpBackend) {
    const backend = options instanceof HttpBackend ? options : new HttpBackend(planClient(options))
    super(backend)
    this.#backend = backend
    this.jobs = new Jobs(backend.jobs)
  }

  async capabilities(): Promise<Capabilities> {
    return this.#backend.capabilities()
  }
}
