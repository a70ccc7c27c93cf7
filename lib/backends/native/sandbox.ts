/** `Sandbox`: the facade on this process's engine. */

import { calledBy } from '../../base/call-site.js'
import { absolute } from '../../base/working-directory.js'
import type * as api from '../../calls/index.js'
import { sandboxForwardOptions } from '../../calls/ports.js'
import { keptOptions, resumeOptions } from '../../calls/sandbox.js'
import { archiveOptions, suspendOptions } from '../../calls/suspend.js'
import { workspace } from '../../calls/workspace.js'
import { planFork, planMerge } from '../../requests/workspace.js'
import { SandboxFacade } from '../../sandbox/facade.js'
import { RootedJobs } from '../../sandbox/jobs.js'
import { portNumber } from '../../schema/http.js'
import type { OptionValues } from '../../schema/kind.js'
import { identifier } from '../../schema/names.js'
import { directory } from '../../schema/paths.js'
import { readArgument, readOptions, readWithDefaults, withDefaults } from '../../schema/read.js'
import { NativeBackend } from './backend.js'
import { callApart, type Send } from './engine.js'
import { planChecked, planSandbox, type SandboxPlan } from './plan/sandbox.js'
import { LocalSession } from './session.js'

/** A sandbox on an existing backend. */
class BackendSandbox extends SandboxFacade<LocalSession> implements api.Sandbox {
  readonly jobs: RootedJobs
  readonly name: string | null
  readonly #backend: NativeBackend

  constructor(backend: NativeBackend, { config }: SandboxPlan) {
    super(backend, (id) => new LocalSession(backend, id))
    this.#backend = backend
    this.name = backend.name
    this.jobs = new RootedJobs(backend.jobs, config.jobsRoot)
  }

  fork(options?: api.ForkOptions): Promise<api.Sandbox>
  fork(count: number, options?: api.ForkOptions): Promise<api.Sandbox[]>
  async fork(
    count?: number | api.ForkOptions,
    options?: api.ForkOptions,
  ): Promise<api.Sandbox | api.Sandbox[] | undefined> {
    const plan = planFork(count, options)
    const forks = await calledBy(this.fork, this.#backend.checkpoints.fork(plan))
    return plan.isOne ? forks[0] : forks
  }

  static async merge(sandboxes: api.Sandbox[], options?: api.MergeOptions): Promise<api.Merged> {
    const isOne = (value: unknown): value is BackendSandbox =>
      typeof value === 'object' && value !== null && #backend in value
    const plan = planMerge(sandboxes, isOne, options)
    const [first, ...others] = plan.sandboxes.map((sandbox) => sandbox.#backend.checkpoints)
    if (first === undefined) throw new TypeError('there is no sandbox')
    return calledBy(BackendSandbox.merge, first.merge(others, plan))
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

  static async resume(file: string | URL, options?: api.ResumeOptions): Promise<api.Resumed> {
    const place = absolute(readArgument(directory.read, file, 'file'))
    const given = readOptions(resumeOptions, options, 'Sandbox.resume')
    const plan = planChecked(await withWorkspace(place, given))
    const backend = new NativeBackend(plan, sandboxOf)
    try {
      const resumed = await backend.resume(place, withDefaults(archiveOptions, given))
      return { sandbox: sandboxOf(backend, plan), ...resumed }
    } catch (error) {
      await backend.destroy()
      throw error
    }
  }

  static async listKept(options?: api.KeptOptions): Promise<api.KeptSandbox[]> {
    const { stateDir } = readOptions(keptOptions, options, 'listKept')
    const found = await calledBy(
      Sandbox.listKept,
      askApart(stateDir, (native, id) => native.listKept(id)),
    )
    return found.map(({ name, inUse, usedAt }) => ({ name, inUse, usedAt: new Date(usedAt * 1000) }))
  }

  static async deleteKept(name: string, options?: api.KeptOptions): Promise<void> {
    const kept = readArgument(identifier.read, name, 'name')
    const { stateDir } = readOptions(keptOptions, options, 'deleteKept')
    await calledBy(
      Sandbox.deleteKept,
      askApart(stateDir, (native, id) => native.deleteKept(id, kept)),
    )
  }
}

/** Makes a call about files of sandboxes, which needs no sandbox of its own. */
async function askApart<T>(stateDir: string | undefined, send: Send<T>): Promise<T> {
  return callApart(planSandbox({ stateDir }).config, send)
}

type ResumeValues = OptionValues<typeof resumeOptions>

/** The options with a copy-on-write workspace, if they do not say and the archive has files. */
async function withWorkspace(place: string, given: ResumeValues): Promise<ResumeValues> {
  if (Object.hasOwn(given, 'workspace')) return given
  const { hasFiles } = await askApart(given.stateDir, (native, id) => native.readArchive(id, place))
  return hasFiles ? { ...given, workspace: workspace.read('copy-on-write', 'workspace') } : given
}

/** Makes a Sandbox of a backend. The class itself takes only options. */
function sandboxOf(backend: NativeBackend, plan: SandboxPlan): api.Sandbox {
  return Reflect.construct(BackendSandbox, [backend, plan], Sandbox)
}
