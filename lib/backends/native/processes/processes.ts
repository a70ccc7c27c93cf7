/**
 * The background processes of one sandbox, by id.
 *
 * The engine decides which processes exist; this table holds one object for each. A process that the engine has forgotten
 * leaves the table at the next lookup, or at the latest when the table has doubled.
 */
import { deferred } from '../../../base/deferred.js'
import { engineError, SandboxError, unknownId } from '../../../base/errors.js'
import { report } from '../../../base/report.js'
import type { NativeProcess, NativeProcessStart } from '../../../boundary/index.js'
import type { Logger } from '../../../calls/index.js'
import type { ProcessFilter } from '../../../requests/logs.js'
import type { ProcessRequest } from '../../../requests/process.js'
import type { ServiceRequest } from '../../../requests/service.js'
import { AS_STARTED, startProcess } from '../../../run/start-process.js'
import type { ProcessBackend } from '../../../sandbox/backend.js'
import { processOf } from '../../../sandbox/process.js'
import type { Engine } from '../engine.js'
import type { StartDefaults } from '../plan/defaults.js'
import { planProcess } from '../plan/process.js'
import { definitionOf, serviceOf } from './definition.js'
import { isOver, ProcessHandle } from './handle.js'
import { launch } from './launch.js'
import { LocalProcess } from './process.js'
import { hasFailed } from './restart.js'
import { Revivals } from './revivals.js'
import { LocalService } from './service.js'
import { ServiceLife } from './service-life.js'

/** A smaller table is not pruned. */
const FEW = 64

export class Processes {
  /** The services between two of their processes. */
  readonly revivals = new Revivals()
  readonly #engine: Engine
  readonly #defaults: StartDefaults
  readonly #logger: Logger | undefined
  readonly #known = new Map<string, LocalProcess>()
  /** The pending starts. Each resolves once there is a process to kill. */
  readonly #starting = new Set<Promise<LocalProcess>>()
  #pruneAt = FEW

  constructor(engine: Engine, defaults: StartDefaults, logger: Logger | undefined) {
    this.#engine = engine
    this.#defaults = defaults
    this.#logger = logger
    engine.onRestored(() => this.#startAgain())
  }

  start(request: ProcessRequest): Promise<LocalProcess> {
    const plan = planProcess(request, this.#defaults)
    const launched = async (): Promise<LocalProcess> => {
      const handle = await launch(this.#engine, plan)
      return this.#add(new LocalProcess(this.#engine, () => handle))
    }
    const { source } = plan
    return this.#settle(
      startProcess<LocalProcess>({
        ...{ request, source, logger: this.#logger, introduce: processOf },
        launch: launched,
      }),
    )
  }

  /** Keeps a process that was a command, with its input and its terminal. To be called while the event is handled. */
  adopt(started: NativeProcess, streams: Pick<NativeProcessStart, 'input' | 'pty'>): LocalProcess {
    const { killSignal, forceKillAfterDelay } = this.#defaults
    const request = { killSignal, forceKillAfterDelay, ipc: false, ...streams }
    const handle = new ProcessHandle(this.#engine, started, { request, source: undefined })
    return this.#add(new LocalProcess(this.#engine, () => handle))
  }

  startService(request: ServiceRequest): Promise<LocalService> {
    const plan = { ...request, process: planProcess(request.process, this.#defaults) }
    if (this.#engine.keeps) plan.process.request.definition = definitionOf(request, plan.process.request)
    const launch = deferred<LocalService>()
    const life: ServiceLife = new ServiceLife(
      this.#engine,
      this.#logger,
      request,
      plan,
      this.revivals,
      () => {
        launch.resolve(service)
        return processOf(this.#add(service))
      },
    )
    const service: LocalService = new LocalService(this.#engine, life)
    const ready = life.begin().then(() => service)
    return this.#settle<LocalService>(ready, Promise.race([launch.promise, ready]))
  }

  list({ status, sessionId }: ProcessFilter): ProcessBackend[] {
    const all = this.#engine.ask((native) => native.processes()) ?? []
    const shown = all.flatMap((one) => this.#of(one) ?? [])
    return shown.filter(
      ({ info }) =>
        (status === undefined || status.has(info.status)) &&
        (sessionId === undefined || info.sessionId === sessionId),
    )
  }

  find(id: string): LocalProcess | undefined {
    const exists = this.#engine.ask((native) => native.process(id)) ?? null
    if (exists !== null) return this.#of(exists)
    this.#known.delete(id)
    return undefined
  }

  /** The object of a process: also of one that an earlier sandbox of the same name has had, but of none that is starting. */
  #of(native: NativeProcess): LocalProcess | undefined {
    const known = this.#known.get(native.processId)
    if (known !== undefined || !native.restored) return known
    return this.adopt(native, { input: 'none', pty: undefined })
  }

  /** The process with this id, without a lookup that could fail: with an unknown id, its calls reject. Never throws. */
  at(id: string): ProcessBackend {
    const found = this.#engine.isDestroyed ? undefined : this.find(id)
    return found ?? new LocalProcess(this.#engine, () => this.#require(id).handle)
  }

  /** Kills all processes; a process that is still starting is killed once it runs. Resolves with their number. */
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

  /** Forgets ended processes that callers know: the end of any other has yet to reach its start. */
  cleanUp(): number {
    const all = this.#engine.ask((native) => native.processes()) ?? []
    const known = all.filter((one) => this.#of(one)?.handle.ref.number === one.number)
    const ended = known.filter(isOver).map(({ processId }) => processId)
    const count = this.#engine.ask((native) => native.forgetProcesses(ended)) ?? 0
    this.#prune()
    return count
  }

  /** Starts the services that an earlier sandbox of the same name would have started again, or that ended with it. */
  #startAgain(): void {
    for (const ended of this.#engine.ask((native) => native.processes()) ?? []) {
      const request = ended.definition === undefined ? undefined : serviceOf(ended.definition)
      if (request === undefined || !(hasFailed(ended) || ended.killedBy?.by === 'session')) continue
      this.startService(request).catch((error: unknown) =>
        report(this.#logger, 'warn', `service '${ended.processId}' could not be started again: ${error}`),
      )
    }
  }

  /** Tracks a start until it settles. `launched` resolves once there is a process to kill. */
  async #settle<T extends LocalProcess>(ready: Promise<T>, launched = ready): Promise<T> {
    launched.catch(() => {})
    this.#starting.add(launched)
    try {
      return await ready
    } catch (error) {
      // Whatever failed, the end of the sandbox caused it.
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
    if (known === undefined) throw unknownId('process', id)
    return known
  }

  #prune(): void {
    for (const id of this.#known.keys()) this.find(id)
  }
}
