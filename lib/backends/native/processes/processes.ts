/**
 * The background processes of one sandbox, by id.
 *
 * The engine is the authority on which there are; this table gives each of them one object for all who ask. What the
 * engine has forgotten leaves the table when that is noticed, at the latest when the table has doubled.
 */
import { engineError, SandboxError } from '../../../base/errors.js'
import type { Logger } from '../../../public/index.js'
import type { ProcessFilter } from '../../../requests/logs.js'
import type { ProcessRequest } from '../../../requests/process.js'
import type { ServiceRequest } from '../../../requests/service.js'
import { AS_STARTED, startProcess } from '../../../run/start-process.js'
import type { ProcessBackend, ServiceBackend } from '../../../sandbox/backend.js'
import type { Engine } from '../engine.js'
import type { ExecDefaults } from '../plan/exec.js'
import { planProcess } from '../plan/process.js'
import { launch } from './launch.js'
import { LocalProcess } from './process.js'
import { LocalService } from './service.js'
import { ServiceLife } from './service-life.js'

/** The table is not looked through as long as it is smaller. */
const FEW = 64

export class Processes {
  readonly #engine: Engine
  readonly #defaults: ExecDefaults
  readonly #logger: Logger | undefined
  readonly #known = new Map<string, LocalProcess>()
  /** What is being started: each resolves as soon as there is something to kill. */
  readonly #starting = new Set<Promise<LocalProcess>>()
  #pruneAt = FEW

  constructor(engine: Engine, defaults: ExecDefaults, logger: Logger | undefined) {
    this.#engine = engine
    this.#defaults = defaults
    this.#logger = logger
  }

  start(request: ProcessRequest, introduce: (process: ProcessBackend) => unknown): Promise<LocalProcess> {
    const plan = planProcess(request, this.#defaults)
    const launched = async (): Promise<LocalProcess> => {
      const handle = await launch(this.#engine, plan)
      return this.#add(new LocalProcess(this.#engine, () => handle))
    }
    const { source } = plan
    return this.#settle(
      startProcess<LocalProcess>({
        ...{ request, source, logger: this.#logger, introduce },
        launch: launched,
      }),
    )
  }

  startService(
    request: ServiceRequest,
    introduce: (service: ServiceBackend) => unknown,
  ): Promise<LocalService> {
    const plan = { ...request, process: planProcess(request.process, this.#defaults) }
    let launched: (service: LocalService) => void = () => {}
    const launch = new Promise<LocalService>((resolve) => {
      launched = resolve
    })
    const life: ServiceLife = new ServiceLife(this.#engine, this.#logger, request, plan, () => {
      launched(service)
      return introduce(this.#add(service))
    })
    const service: LocalService = new LocalService(this.#engine, life)
    const ready = life.begin().then(() => service)
    return this.#settle<LocalService>(ready, Promise.race([launch, ready]))
  }

  list({ status, sessionId }: ProcessFilter): ProcessBackend[] {
    const all = this.#engine.ask((native) => native.processes()) ?? []
    const shown = all.flatMap(({ processId }) => this.#known.get(processId) ?? [])
    return shown.filter(
      ({ info }) =>
        (status === undefined || status.has(info.status)) &&
        (sessionId === undefined || info.sessionId === sessionId),
    )
  }

  find(id: string): LocalProcess | undefined {
    const exists = this.#engine.ask((native) => native.process(id)) ?? null
    if (exists === null) this.#known.delete(id)
    return this.#known.get(id)
  }

  /** The process of this id. Where there is none, each use of what it gives rejects. Throws nothing. */
  at(id: string): ProcessBackend {
    const found = this.#engine.isDestroyed ? undefined : this.find(id)
    return found ?? new LocalProcess(this.#engine, () => this.#require(id).handle)
  }

  /** Those that are being started are killed as soon as they can be. Gives how many there were. */
  async killAll(): Promise<number> {
    const listed = new Set(this.list({}))
    const running = Array.from(listed, (process) => process.kill(AS_STARTED))
    const starting = Array.from(this.#starting, (start) =>
      start.then(
        (process) => !listed.has(process) && process.kill(AS_STARTED),
        () => false,
      ),
    )
    const killed = await Promise.all([...running, ...starting])
    return killed.filter(Boolean).length
  }

  cleanUp(): number {
    const count = this.#engine.ask((native) => native.cleanUpProcesses(null)) ?? 0
    this.#prune()
    return count
  }

  /** Makes a start known while it is under way. `launched` resolves when there is something to kill. */
  async #settle<T extends LocalProcess>(ready: Promise<T>, launched = ready): Promise<T> {
    launched.catch(() => {})
    this.#starting.add(launched)
    try {
      return await ready
    } catch (error) {
      // However it came to its end, that is the reason.
      const isEnd = this.#engine.isDestroyed && error instanceof SandboxError
      throw isEnd ? engineError('SANDBOX_DESTROYED', undefined) : error
    } finally {
      this.#starting.delete(launched)
    }
  }

  #add<T extends LocalProcess>(process: T): T {
    if (this.#known.size >= this.#pruneAt) {
      this.#prune()
      this.#pruneAt = Math.max(FEW, 2 * this.#known.size)
    }
    this.#known.set(process.handle.id, process)
    return process
  }

  #require(id: string): LocalProcess {
    const known = this.find(id)
    if (known === undefined) throw engineError('PROCESS_NOT_FOUND', `there is no process '${id}'`)
    return known
  }

  #prune(): void {
    for (const id of this.#known.keys()) this.find(id)
  }
}
