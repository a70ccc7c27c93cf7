/** `Sandbox`: the facade on this process's engine. */

import type { Sandbox as PublicSandbox, SandboxOptions } from '../../calls/index.js'
import { SandboxFacade } from '../../sandbox/facade.js'
import { RootedJobs } from '../../sandbox/jobs.js'
import { NativeBackend } from './backend.js'
import { planSandbox, type SandboxPlan } from './plan/sandbox.js'

/** A sandbox on an existing backend. */
class BackendSandbox extends SandboxFacade implements PublicSandbox {
  readonly jobs: RootedJobs

  constructor(backend: NativeBackend, { config }: SandboxPlan) {
    super(backend)
    this.jobs = new RootedJobs(backend.jobs, config.jobsRoot)
  }
}

export class Sandbox extends BackendSandbox {
  constructor(options?: SandboxOptions) {
    const plan = planSandbox(options)
    super(new NativeBackend(plan, sandboxOf), plan)
  }
}

/** Makes a Sandbox of a backend. The class itself takes only options. */
function sandboxOf(backend: NativeBackend, plan: SandboxPlan): PublicSandbox {
  return Reflect.construct(BackendSandbox, [backend, plan], Sandbox)
}
