/**
 * The processes of the sandbox, and those whose instances clients know.
 *
 * The id of an ended process can be forgotten and used again. Its instance names it for ever, and the newest ones are kept:
 * so a client that waits for an ended process, or kills it, gets the same answer as a local caller.
 */
import { crypto } from '../base/builtin.js'
import { engineError, OptionError } from '../base/errors.js'
import type { Process, Sandbox, Service } from '../public/index.js'

/** Processes that are kept after the sandbox has forgotten them. */
const MOST_KEPT = 1000

/** By process, since several servers can have the same sandbox. */
const instances = new WeakMap<Process, string>()

/** What no other process has, not even on another server. A service keeps it when it restarts. */
export function instanceOf(process: Process): string {
  const instance = instances.get(process) ?? crypto().randomUUID().slice(0, 8)
  instances.set(process, instance)
  return instance
}

export class Processes {
  readonly #sandbox: Sandbox
  /** By instance; the oldest is first. */
  readonly #known = new Map<string, Process>()

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox
  }

  /** Keeps a process whose instance is sent to a client. Returns it. */
  show(process: Process): Process {
    const instance = instanceOf(process)
    this.#known.delete(instance)
    this.#known.set(instance, process)
    if (this.#known.size > MOST_KEPT) {
      const [oldest = ''] = this.#known.keys()
      this.#known.delete(oldest)
    }
    return process
  }

  /** `reference`: an id, or `id~instance`. Rejects with PROCESS_NOT_FOUND. */
  async find(reference: string): Promise<Process> {
    const [id = '', instance] = reference.split('~', 2)
    const process = await this.#sandbox.getProcess(id)
    if (process !== null && (instance === undefined || instance === instanceOf(process))) return process
    const known = this.#known.get(instance ?? '')
    if (known?.id === id) return known
    throw engineError('PROCESS_NOT_FOUND', `there is no process '${id}'`)
  }

  /** Rejects also when it is a process but not a service. */
  async findService(reference: string): Promise<Service> {
    const process = await this.find(reference)
    if ('getHealth' in process) return process as Service
    throw new OptionError('INVALID_OPTION', `process '${process.id}' was not started as a service`)
  }
}
