/**
 * The background processes of one sandbox, by id.
 *
 * The engine is the authority on which there are; this table gives each of them one object for all who ask. What the
 * engine has forgotten leaves the table when somebody notices, at the latest when the table has doubled.
 */

import { engineError, OptionError, SandboxError } from '../../../base/errors.js'
import type { ExecDefaults } from '../../../options/exec.js'
import { identifier } from '../../../options/ids.js'
import { checkKill, planFilter, planLogStream, planLogs } from '../../../options/logs.js'
import { type ProcessPlan, planProcess, planSessionProcess } from '../../../options/process.js'
import { readArgument } from '../../../options/read.js'
import { planService } from '../../../options/service.js'
import type { Encoding, KillOptions, LogEvent, ProcessLogs, Signal } from '../../../public/index.js'
import type { Engine } from '../engine.js'
import type { ProcessHandle } from './handle.js'
import { LogStream } from './log-stream.js'
import { readWhole } from './log-text.js'
import { reportError } from './observe.js'
import { Process } from './process.js'
import { Service } from './service.js'
import { ServiceLife } from './service-life.js'
import { startProcess } from './start.js'

/** A process, and how to get at what its object hides. */
interface Known {
  shown: Process
  current: () => ProcessHandle
}

/** The table is not looked through as long as it is smaller. */
const FEW = 64

export class Processes {
  readonly #engine: Engine
  readonly #defaults: ExecDefaults
  readonly #known = new Map<string, Known>()
  readonly #starting = new Set<Promise<Process>>()
  #pruneAt = FEW

  constructor(engine: Engine, defaults: ExecDefaults) {
    this.#engine = engine
    this.#defaults = defaults
  }

  start(command: unknown, options: unknown): Promise<Process> {
    return this.#start(planProcess(command, options, this.#defaults))
  }

  startIn(sessionId: string, command: unknown, options: unknown): Promise<Process> {
    return this.#start(planSessionProcess(sessionId, command, options, this.#defaults))
  }

  startService(command: unknown, options: unknown): Promise<Service> {
    const plan = planService(command, options, this.#defaults)
    return this.#settle(plan.process, async () => {
      const life: ServiceLife = new ServiceLife(this.#engine, plan, () =>
        this.#add(service, () => life.handle),
      )
      const service: Service = new Service(this.#engine, life)
      await life.begin()
      return service
    })
  }

  list(filter: unknown): Process[] {
    const { status, sessionId } = planFilter(filter)
    const all = this.#engine.ask((native) => native.processes()) ?? []
    const shown = all.flatMap(({ processId }) => this.#known.get(processId)?.shown ?? [])
    return shown.filter(
      (process) =>
        (status === undefined || status.has(process.status)) &&
        (sessionId === undefined || process.sessionId === sessionId),
    )
  }

  get(id: unknown): Process | null {
    return this.#find(readArgument(identifier, id, 'id'))?.shown ?? null
  }

  async kill(id: unknown, signal: unknown, options: unknown): Promise<boolean> {
    const processId = readArgument(identifier, id, 'id')
    checkKill(signal, options)
    return this.#require(processId).shown.kill(signal as Signal, options as KillOptions)
  }

  /** Those that are being started are killed as soon as they can be. Gives how many there were. */
  async killAll(): Promise<number> {
    const running = this.list(undefined).map((process) => process.kill())
    const starting = Array.from(this.#starting, (start) =>
      start.then(
        (process) => process.kill(),
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

  async logs(id: unknown, options: unknown): Promise<ProcessLogs<Encoding>> {
    const processId = readArgument(identifier, id, 'id')
    const { encoding } = planLogs(options, 'getProcessLogs')
    this.#require(processId)
    return readWhole(this.#engine, processId, encoding)
  }

  /** An unknown id is the rejection of the first `next`. */
  stream(id: unknown, options: unknown): AsyncIterableIterator<LogEvent<Encoding>, undefined> {
    const processId = readArgument(identifier, id, 'id')
    const plan = planLogStream(options, 'streamProcessLogs')
    return new LogStream(this.#engine, () => this.#require(processId).current(), plan)
  }

  #start(plan: ProcessPlan): Promise<Process> {
    return this.#settle(plan, () =>
      startProcess(this.#engine, plan, (handle) => {
        const current = () => handle
        return this.#add(new Process(this.#engine, current), current)
      }),
    )
  }

  /** Makes a start known while it is under way, and tells onError when it fails. */
  async #settle<T extends Process>(plan: ProcessPlan, start: () => Promise<T>): Promise<T> {
    const starting = start()
    this.#starting.add(starting)
    try {
      return await starting
    } catch (thrown) {
      // However it came to its end, that is the reason.
      const isEnd = this.#engine.isDestroyed && thrown instanceof SandboxError
      const error = isEnd ? engineError('SANDBOX_DESTROYED', undefined) : thrown
      if (plan.callbacks.onError !== undefined && !(error instanceof OptionError))
        reportError(this.#engine, plan.callbacks, error)
      throw error
    } finally {
      this.#starting.delete(starting)
    }
  }

  #add<T extends Process>(shown: T, current: () => ProcessHandle): T {
    if (this.#known.size >= this.#pruneAt) {
      this.#prune()
      this.#pruneAt = Math.max(FEW, 2 * this.#known.size)
    }
    this.#known.set(current().id, { shown, current })
    return shown
  }

  #require(id: string): Known {
    const known = this.#find(id)
    if (known === undefined) throw engineError('PROCESS_NOT_FOUND', `there is no process '${id}'`)
    return known
  }

  #find(id: string): Known | undefined {
    const exists = this.#engine.ask((native) => native.process(id)) ?? null
    if (exists === null) this.#known.delete(id)
    return this.#known.get(id)
  }

  #prune(): void {
    for (const id of this.#known.keys()) this.#find(id)
  }
}
