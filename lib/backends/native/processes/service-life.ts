/**
 * The processes of a service, one after another: starts each, waits until it is ready, and starts the next after a failure.
 *
 * All have the same id. Starting the next process drops the log of the previous one, so the end of that log is kept.
 */

import { onAbort } from '../../../base/abort.js'
import { AbortError, engineError, isCode } from '../../../base/errors.js'
import { report } from '../../../base/report.js'
import { clearTimeout, setTimeout } from '../../../base/timers.js'
import type { NativeProcess } from '../../../boundary/index.js'
import type { Logger, ServiceFailure } from '../../../calls/index.js'
import type { KillRequest } from '../../../requests/logs.js'
import type { ServiceRequest } from '../../../requests/service.js'
import { AS_STARTED, startProcess } from '../../../run/start-process.js'
import type { Engine } from '../engine.js'
import type { ServicePlan } from '../plan/process.js'
import { Change } from './change.js'
import { exitOf, isOver, type ProcessHandle } from './handle.js'
import { waitUntilHealthy } from './health.js'
import { launch } from './launch.js'
import { readTail } from './log-text.js'
import { LocalProcess } from './process.js'
import { countFailures, hasFailed, restartDelay } from './restart.js'
import type { Revival, Revivals } from './revivals.js'

export class ServiceLife {
  readonly plan: ServicePlan
  /** Number of restarts. */
  restarts = 0
  lastFailure: ServiceFailure | null = null
  readonly #engine: Engine
  readonly #logger: Logger | undefined
  readonly #request: ServiceRequest
  readonly #revivals: Revivals
  readonly #introduce: () => unknown
  #handle: ProcessHandle | undefined
  #launching = false
  #failures = 0
  /** Aborted when the service must not be restarted. */
  #stopped = new AbortController()
  #revival: Promise<void> | undefined
  #restart: Promise<void> | undefined
  readonly #change = new Change()

  /** Calls `introduce` for each process once `handle` is set to it. Its result is passed to onStart. */
  constructor(
    engine: Engine,
    logger: Logger | undefined,
    request: ServiceRequest,
    plan: ServicePlan,
    revivals: Revivals,
    introduce: () => unknown,
  ) {
    this.#engine = engine
    this.#logger = logger
    this.#request = request
    this.plan = plan
    this.#revivals = revivals
    this.#introduce = introduce
  }

  /** The current process, or the last one. */
  get handle(): ProcessHandle {
    if (this.#handle === undefined) throw engineError('ENGINE_ERROR', 'the service has not been started')
    return this.#handle
  }

  /** True while a process is being started, or will be after a pause. */
  get isStarting(): boolean {
    return this.#launching || this.#revival !== undefined
  }

  /**
   * The process after the process with this pid, once it runs; null if none will follow by itself, or `stop` is aborted.
   */
  async successor(pid: number, stop: AbortSignal): Promise<NativeProcess | null> {
    while (!stop.aborted) {
      const { state } = this.handle
      if (state.pid !== pid) return state
      if (isOver(state) && !this.isStarting && this.#restart === undefined) return null
      await this.#change.wait(stop)
    }
    return null
  }

  /** Starts the service for the first time. A failure leaves nothing behind. */
  async begin(): Promise<void> {
    try {
      await this.#launch()
    } catch (error) {
      this.#forgetProcess()
      throw error
    }
  }

  /** Kills the process and prevents restarts. False if none was running. */
  async kill(request: KillRequest): Promise<boolean> {
    this.#stopped.abort()
    const killed = await this.handle.kill(request)
    await this.#revival
    return killed
  }

  /** Kills the process and starts the next one. Concurrent calls share one restart. */
  restart(): Promise<void> {
    this.#restart ??= this.#startOver().finally(() => {
      this.#restart = undefined
      this.#change.announce()
    })
    return this.#restart
  }

  async #startOver(): Promise<void> {
    const revival = this.#revivals.enter(this.#id)
    try {
      await this.kill({ ...AS_STARTED, reason: 'restart' })
      this.#stopped = new AbortController()
      this.#failures = 0
      await this.#next(revival)
    } finally {
      revival.leave()
    }
  }

  async #next(revival: Revival): Promise<void> {
    await revival.settled()
    if (revival.ended.aborted) throw engineError('ROLLED_BACK', undefined)
    this.#forgetProcess()
    await this.#launch()
    this.restarts++
    const { sessionId, processId } = this.plan.process.request
    this.#engine.release((native) => native.serviceRestarted(sessionId, processId, this.restarts))
  }

  /** Starts a process and resolves once it is ready. A process that does not become ready is killed. */
  async #launch(): Promise<void> {
    this.#launching = true
    try {
      await startProcess({
        request: this.#request.process,
        source: undefined,
        logger: this.#logger,
        launch: async () => {
          const started = await launch(this.#engine, this.plan.process)
          this.#handle = started
          this.#change.announce()
          return new LocalProcess(this.#engine, () => started)
        },
        introduce: this.#introduce,
      })
      await this.#getReady(this.handle)
    } finally {
      this.#launching = false
      this.#change.announce()
    }
  }

  async #getReady(handle: ProcessHandle): Promise<void> {
    try {
      if (this.#isStopped()) throw new AbortError(undefined, undefined, 'the start of the service')
      await waitUntilHealthy(handle, this.plan, this.#signal)
    } catch (error) {
      await handle.kill({ ...AS_STARTED, reason: 'it did not become ready' })
      await this.#remember(handle)
      throw error
    }
    void handle.ended.then((end) => this.#ended(handle, end))
  }

  async #ended(handle: ProcessHandle, end: NativeProcess): Promise<void> {
    this.#change.announce()
    if (!hasFailed(end) || this.#isStopped()) return
    this.#failures = countFailures(this.#failures, end)
    if (this.plan.restart === 'never') return this.#remember(handle)
    const revival = this.#revivals.enter(this.#id)
    this.#revival = this.#revive(handle, revival).finally(() => {
      revival.leave()
      this.#revival = undefined
      this.#change.announce()
    })
  }

  /** Starts processes until one becomes ready or the service is stopped. */
  async #revive(failed: ProcessHandle, revival: Revival): Promise<void> {
    await this.#remember(failed)
    while (await this.#pause(revival)) {
      try {
        return await this.#next(revival)
      } catch (error) {
        if (isFinal(error)) return
        report(this.#logger, 'warn', `service '${failed.id}' could not be started again: ${error}`)
        this.#failures++
      }
    }
  }

  get #id(): string {
    return this.plan.process.request.processId
  }

  get #signal(): AbortSignal | undefined {
    return this.#request.process.values.signal
  }

  #isStopped(): boolean {
    return this.#stopped.signal.aborted || this.#signal?.aborted === true || this.#engine.isDestroyed
  }

  /** Waits before the next start, without keeping the event loop alive. False if the service was stopped. */
  async #pause({ ended }: Revival): Promise<boolean> {
    const { signal } = this.#stopped
    const aborted = this.#signal
    const milliseconds = restartDelay(this.plan.restartDelay, this.#failures)
    await new Promise<void>((resolve) => {
      const end = () => {
        clearTimeout(timer)
        for (const release of releases) release()
        resolve()
      }
      const timer = setTimeout(end, milliseconds).unref()
      const signals = [signal, aborted, ended]
      const releases = [...signals.map((stop) => onAbort(stop, end)), this.#engine.onDestroy(end)]
      if (ended.aborted || this.#isStopped()) end()
    })
    return !(ended.aborted || this.#isStopped())
  }

  async #remember(handle: ProcessHandle): Promise<void> {
    const { state } = handle
    const logTail = await readTail(handle)
    this.lastFailure = { ...exitOf(state), endTime: new Date(state.endedAt ?? Date.now()), logTail }
  }

  #forgetProcess(): void {
    try {
      this.#engine.ask((native) => native.forgetProcesses([this.#id]))
    } catch {
      // The sandbox has been destroyed, and its processes with it.
    }
  }
}

/** Errors after which the service is not started again. */
function isFinal(error: unknown): boolean {
  return (
    error instanceof AbortError ||
    isCode(error, 'ROLLED_BACK', 'SANDBOX_DESTROYED', 'SESSION_NOT_FOUND', 'SESSION_DESTROYED')
  )
}
