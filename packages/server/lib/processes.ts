/**
 * The processes of the sandbox, and those whose instances clients know.
 *
 * The id of an ended process can be forgotten and used again. Its instance names it for ever, and the newest ones are kept:
 * so a client that waits for an ended process, or kills it, gets the same answer as a local caller.
 */

import type { ProcessInfo } from 'nacre'
import { crypto, kinds, OptionError, plans, unknownId } from 'nacre/internal'
import type { backends, NamedProcess } from 'nacre/internal/server'
import type { Metrics } from './metrics.js'

/** Processes that are kept after the sandbox has forgotten them. */
const MOST_KEPT = 1000

/** By process, since several servers can have the same sandbox. */
const instances = new WeakMap<backends.ProcessBackend, string>()

/** A process as a reply has it. `info`: of the process, or of a service at another time. */
export function withInstance(
  process: backends.ProcessBackend,
  info: ProcessInfo = process.info,
): NamedProcess {
  return { ...info, instance: instanceOf(process) }
}

/** What no other process has, not even on another server. A service keeps it when it restarts. */
function instanceOf(process: backends.ProcessBackend): string {
  const instance = instances.get(process) ?? crypto().randomUUID().slice(0, 8)
  instances.set(process, instance)
  return instance
}

export class Processes {
  readonly #backend: backends.Backend
  readonly #metrics: Metrics
  /** By instance; the oldest is first. */
  readonly #known = new Map<string, backends.ProcessBackend>()

  constructor(backend: backends.Backend, metrics: Metrics) {
    this.#backend = backend
    this.#metrics = metrics
  }

  /** `hold`: the caller's, of the session. */
  async start(command: unknown, options: unknown, hold?: string): Promise<backends.ProcessBackend> {
    const process = await this.#backend.startProcess({ ...plans.readProcess(command, options), hold })
    this.#metrics.process(process)
    return process
  }

  async startService(command: unknown, options: unknown, hold?: string): Promise<backends.ServiceBackend> {
    const request = plans.readService(command, options)
    const service = await this.#backend.startService({ ...request, process: { ...request.process, hold } })
    this.#metrics.process(service)
    return service
  }

  /** Keeps a process that is sent to a client, by its instance. */
  show(process: backends.ProcessBackend): NamedProcess {
    const shown = withInstance(process)
    const { instance } = shown
    this.#known.delete(instance)
    this.#known.set(instance, process)
    if (this.#known.size > MOST_KEPT) {
      const [oldest = ''] = this.#known.keys()
      this.#known.delete(oldest)
    }
    return shown
  }

  /** `reference`: an id, or `id~instance`. Rejects with PROCESS_NOT_FOUND. */
  async find(reference: string): Promise<backends.ProcessBackend> {
    const [id = '', instance] = reference.split('~', 2)
    const process = await this.#backend.findProcess(kinds.readId(id))
    if (process !== null && (instance === undefined || instance === instanceOf(process))) return process
    const known = this.#known.get(instance ?? '')
    if (known?.info.id === id) {
      await known.refresh()
      return known
    }
    throw unknownId('process', id)
  }

  /** Rejects also when it is a process but not a service. */
  async findService(reference: string): Promise<backends.ServiceBackend> {
    const { service, info } = await this.find(reference)
    if (service !== undefined) return service
    throw new OptionError('INVALID_OPTION', `process '${info.id}' was not started as a service`)
  }
}
