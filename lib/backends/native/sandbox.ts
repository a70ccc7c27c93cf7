/** `Sandbox`: the facade on this process's engine. */

import type {
  Capabilities,
  Checkpoint,
  CheckpointOptions,
  Sandbox as PublicSandbox,
  Rollback,
  SandboxOptions,
  Workspace,
} from '../../public/index.js'
import { SandboxFacade } from '../../sandbox/facade.js'
import { RootedJobs } from '../../sandbox/jobs.js'
import { NativeBackend } from './backend.js'
import { planSandbox } from './plan/sandbox.js'

export class Sandbox extends SandboxFacade implements PublicSandbox {
  readonly jobs: RootedJobs
  readonly workspace: Workspace
  readonly #backend: NativeBackend

  constructor(options?: SandboxOptions) {
    const plan = planSandbox(options)
    const backend = new NativeBackend(plan)
    super(backend)
    this.#backend = backend
    this.workspace = backend.workspace
    this.jobs = new RootedJobs(backend.jobs, plan.config.jobsRoot)
  }

  checkpoint(options?: CheckpointOptions): Promise<Checkpoint> {
    return this.#backend.checkpoints.make(options)
  }

  checkpoints(): Promise<Checkpoint[]> {
    return this.#backend.checkpoints.list()
  }

  deleteCheckpoint(point: Checkpoint | string): Promise<void> {
    return this.#backend.checkpoints.delete(point)
  }

  rollback(point: Checkpoint | string): Promise<Rollback> {
    return this.#backend.checkpoints.rollBack(point)
  }

  capabilities(): Capabilities {
    return this.#backend.capabilities()
  }
}
