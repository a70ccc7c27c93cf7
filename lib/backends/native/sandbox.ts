/** `Sandbox`: the facade on this process's engine. */

import { calledBy } from '../../base/call-site.js'
import { absolute } from '../../base/working-directory.js'
import type * as api from '../../calls/index.js'
import { sandboxForwardOptions } from '../../calls/ports.js'
import { archiveOptions, suspendOptions } from '../../calls/suspend.js'
import { planFork } from '../../requests/workspace.js'
import { SandboxFacade } from '../../sandbox/facade.js'
import { RootedJobs } from '../../sandbox/jobs.js'
import { portNumber } from '../../schema/http.js'
import { directory } from '../../schema/paths.js'
import { readArgument, readEntries, readOptions, readWithDefaults } from '../../schema/read.js'
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

  async suspend(file: string | URL, options?: api.SuspendOptions): Promise<api.Suspended> {
    const place = absolute(readArgument(directory.read, file, 'file'))
    const plan = readWithDefaults(suspendOptions, options, 'suspend')
    return calledBy(this.suspend, this.#backend.suspend(place, plan))
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

  static async resume(file: string | URL, options: api.ResumeOptions = {}): Promise<api.Resumed> {
    const place = absolute(readArgument(directory.read, file, 'file'))
    const { onDifference, maxBytes, ...own } = Object.fromEntries(
      readEntries(options, 'the options of Sandbox.resume'),
    ) as api.ResumeOptions
    const plan = readWithDefaults(archiveOptions, { onDifference, maxBytes }, 'Sandbox.resume')
    const workspace = own.workspace ?? ((await hasFiles(place, own)) ? 'copy-on-write' : undefined)
    const sandboxPlan = planSandbox({ ...own, workspace })
    const backend = new NativeBackend(sandboxPlan, sandboxOf)
    try {
      const resumed = await backend.resume(place, plan)
      return { sandbox: sandboxOf(backend, sandboxPlan), ...resumed }
    } catch (error) {
      await backend.destroy()
      throw error
    }
  }
}

/** Whether an archive has files of a workspace. A sandbox reads it that is not used for anything else. */
async function hasFiles(place: string, options: api.SandboxOptions): Promise<boolean> {
  const backend = new NativeBackend(planSandbox({ ...options, keep: undefined }))
  try {
    return await backend.hasFiles(place)
  } finally {
    await backend.destroy()
  }
}

/** Makes a Sandbox of a backend. The class itself takes only options. */
function sandboxOf(backend: NativeBackend, plan: SandboxPlan): api.Sandbox {
  return Reflect.construct(BackendSandbox, [backend, plan], Sandbox)
}
