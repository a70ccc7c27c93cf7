/** Services: servers that `service` starts and waits for. */
import type { AnySandbox, AnySession, Service as EngineService, LogLine } from 'nacre'
import { clock, isCode } from 'nacre/internal'
import { KILLS, LOG_LIMIT } from './run.js'
import { ToolError } from './schema.js'

export interface ServicePlan {
  command: string
  port: number | undefined
  /** A regular expression for a line of its output. */
  log: string | undefined
  /** Milliseconds. */
  readyIn: number
  restart: 'never' | 'on-failure'
}

/** Milliseconds after which a service is ready that neither listens nor prints a line. */
const PROBATION = 1000
/** Lines of the log in an error. */
const TAIL = 20

export class Service {
  readonly name: string
  readonly plan: ServicePlan
  readonly startedAt = clock.performance.now()
  /** Whether it is ready; until then undefined. Later it may have ended. */
  isReady = false
  /** Resolves when it is ready. Rejects if it failed, and then nothing of it runs. */
  readonly ready: Promise<void>
  readonly #stop = new AbortController()
  #service: EngineService | undefined
  #isKilled = false
  failure: unknown

  constructor(name: string, plan: ServicePlan, sandbox: AnySandbox, { id }: AnySession) {
    this.name = name
    this.plan = plan
    this.ready = this.#start(sandbox, id).then(() => {
      this.isReady = true
    })
    this.ready.catch((error) => {
      this.failure = error
    })
  }

  get isOver(): boolean {
    if (this.failure !== undefined || this.#isKilled) return true
    return (
      this.#service !== undefined &&
      this.#service.endTime !== undefined &&
      this.#service.status !== 'starting'
    )
  }

  get process(): EngineService | undefined {
    return this.#service
  }

  /** Kills it with everything it started. Resolves when all have ended: with false if it had ended before. */
  async kill(signal?: NodeJS.Signals): Promise<boolean> {
    this.#isKilled = true
    // While it starts, only this ends it.
    if (!this.isReady && this.failure === undefined) {
      this.#stop.abort()
      await this.ready.catch(() => {})
      await this.#service?.kill('SIGKILL', { reason: KILLS.tool }).catch(ignoreGone)
      return true
    }
    return (await this.#service?.kill(signal, { reason: KILLS.tool }).catch(ignoreGone)) ?? false
  }

  /** The last lines of its output. */
  async lastLines(lines: number): Promise<LogLine[]> {
    if (this.#service === undefined) return []
    try {
      return (await this.#service.getLogLines({ fromLine: -lines, lines })).lines
    } catch (error) {
      if (isCode(error, 'PROCESS_NOT_FOUND')) return []
      throw error
    }
  }

  async #start(sandbox: AnySandbox, sessionId: string): Promise<void> {
    const { command, port, readyIn, restart } = this.plan
    const health = port === undefined ? { command: 'true' } : { port }
    try {
      this.#service = await sandbox.startService(command, {
        sessionId,
        restart,
        mergeOutput: true,
        logLimit: LOG_LIMIT,
        signal: this.#stop.signal,
        healthCheck: { ...health, timeout: readyIn },
      })
      if (port === undefined) await this.#prove(this.#service)
    } catch (error) {
      if (!this.#isKilled) throw error
      throw new ToolError(`The service "${this.name}" was killed before it was ready.`, 'SERVICE_KILLED')
    }
  }

  /** Waits for its line, in a time that grows with the log alone, as a health check would not. */
  async #prove(service: EngineService): Promise<void> {
    const { log, readyIn } = this.plan
    const left = Math.max(1, readyIn - (clock.performance.now() - this.startedAt))
    const { by } = await service.waitFor(log === undefined ? { timeout: PROBATION } : { log, timeout: left })
    if (by === (log === undefined ? 'timeout' : 'log')) return
    const tail = (await this.lastLines(TAIL)).map(({ text }) => text).join('\n')
    await service.kill().catch(ignoreGone)
    if (by === 'timeout')
      throw new ToolError(
        `No line matched log within ${readyIn / 1000} s. The end of its log:\n${tail}`,
        'PROCESS_READY_TIMEOUT',
      )
    throw new ToolError(`The service ended. The end of its log:\n${tail}`, 'PROCESS_EXITED_BEFORE_READY')
  }
}

function ignoreGone(error: unknown): boolean {
  if (isCode(error, 'PROCESS_NOT_FOUND', 'SANDBOX_DESTROYED')) return false
  throw error
}
