/** `Sandbox`: the facade on this process's engine. */

import type {
  Capabilities,
  Command,
  Encoding,
  ExecOptions,
  ExecStream,
  Sandbox as PublicSandbox,
  SandboxOptions,
} from '../../public/index.js'
import { readExec } from '../../requests/exec.js'
import type { StreamBounds } from '../../sandbox/backend.js'
import { SandboxFacade } from '../../sandbox/facade.js'
import { RootedJobs } from '../../sandbox/jobs.js'
import { openStream } from '../../sandbox/runner.js'
import { NativeBackend } from './backend.js'
import { HeldRuns } from './held.js'
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

  /** Starts `execStream` with the bounds of a reader at the other end of a connection. */
  static connectionStream<E extends Encoding>(
    sandbox: PublicSandbox,
    command: Command,
    options: ExecOptions<E>,
    bounds: StreamBounds,
  ): ExecStream<E> {
    // An instance of another class with the same methods sets its own bounds.
    if (!(#backend in sandbox)) return sandbox.execStream(command, options)
    return openStream(sandbox.#backend, readExec(command, options, 'execStream'), bounds)
  }

  /** The sandbox's `maxBuffer`. Undefined for an instance of another class. */
  static maxBufferOf(sandbox: PublicSandbox): number | undefined {
    return #backend in sandbox ? sandbox.#backend.maxBuffer : undefined
  }

  /**
   * What a server needs to hold processes back and confine paths to a root. Undefined for an instance of another class.
   */
  static held(sandbox: PublicSandbox): HeldRuns | undefined {
    return #backend in sandbox ? new HeldRuns(sandbox.#backend) : undefined
  }

  capabilities(): Capabilities {
    return this.#backend.capabilities()
  }
}
