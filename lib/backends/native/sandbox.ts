/** `Sandbox`: the facade on this process's engine. */

import type { Capabilities, Sandbox as PublicSandbox, SandboxOptions } from '../../public/index.js'
import { SandboxFacade } from '../../sandbox/facade.js'
import { RootedJobs } from '../../sandbox/jobs.js'
import { NativeBackend } from './backend.js'
import { planSandbox } from './plan/sandbox.js'

export class Sandbox extends SandboxFacade implements PublicSandbox {
  readonly jobs: RootedJobs
  readonly #backend: NativeBackend

  constructor(options?: SandboxOptions) {
    const plan = planSandbox(options)
    const backend = new NativeBackend(plan)
    super(backend)
    this.#backend = backend
    this.jobs = new RootedJobs(backend.jobs, plan.config.jobsRoot)
  }

  capabilities(): Capabilities {
    return this.#backend.capabilities()
  }
}
