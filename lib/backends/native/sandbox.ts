/** `Sandbox`: the facade on this process's engine. */

import { calledBy } from '../../base/call-site.js'
import type * as api from '../../calls/index.js'
import { sandboxForwardOptions } from '../../calls/ports.js'
import { planFork } from '../../requests/workspace.js'
import { SandboxFacade } from '../../sandbox/facade.js'
import { RootedJobs } from '../../sandbox/jobs.js'
import { portNumber } from '../../schema/http.js'
import { readArgument, readOptions } from '../../schema/read.js'
import { NativeBackend } from './backend.js'
import { planSandbox, type SandboxPlan } from './plan/sandbox.js'
import { LocalSession } from './session.js'

/** A sandbox on an existing backend. */
class BackendSandbox extends SandboxFacade<LocalSession> implements api.Sandbox {
  readonly jobs: RootedJobs
  readonly #backend: NativeBackend

  constructor(backend: NativeBackend, { config }: SandboxPlan) {
    super(backend, (id) => new LocalSession(backend, id))
    this.#backend = backend
    this.jobs = new RootedJobs(backend.jobs, config.jobsRoot)
  }

  fork(options?: api.ForkOptions): Promise<api.Sandbox>
  fork(count: number, options?: api.ForkOptions): Promise<api.Sandbox[]>
  async fork(
    count?: number | api.ForkOptions,
    options?: api.ForkOptions,
  ): Promise<api.Sandbox | api.Sandbox[] | undefined> {
    const { isOne, ...plan } = planFork(count, options)
    const forks = await calledBy(this.fork, this.#backend.checkpoints.fork(plan))
    return isOne ? forks[0] : forks
  }

  async forward(port: number, options?: api.SandboxForwardOptions): Promise<api.Forwarding> {
    const number = readArgument(portNumber.read, port, 'port')
    const place = readOptions(sandboxForwardOptions, options, 'forward')
    return calledBy(this.forward, this.#backend.forward(number, place))
  }
}

export class Sandbox extends BackendSandbox {
  constructor(options?: api.SandboxOptions) {
    const plan = planSandbox(options)
    super(new NativeBackend(plan, sandboxOf), plan)
  }

  static async create(options?: api.SandboxOptions): Promise<Sandbox> {
    const sandbox = new Sandbox(options)
    try {
      // It needs the shell, and leaves no trace.
      await sandbox.setEnvVars({})
      return sandbox
    } catch (error) {
      await sandbox.destroy()
      throw error
    }
  }
}

/** Makes a Sandbox of a backend. The class itself takes only options. */
function sandboxOf(backend: NativeBackend, plan: SandboxPlan): api.Sandbox {
  return Reflect.construct(BackendSandbox, [backend, plan], Sandbox)
}
