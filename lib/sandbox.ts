/**
 * The sandbox as callers hold it: checks arguments, then asks the engine. Every method but the constructor,
 * `execStream` and `capabilities` returns a promise, and whatever goes wrong is its rejection.
 */
import { randomUUID } from 'node:crypto'
import type {
  Capabilities,
  Command,
  Encoding,
  EnvChanges,
  ExecOptions,
  ExecResult,
  KillOptions,
  LogEvent,
  LogOptions,
  LogStreamOptions,
  Process,
  ProcessFilter,
  ProcessLogs,
  ProcessOptions,
  ExecStream as PublicExecStream,
  Sandbox as PublicSandbox,
  Session as PublicSession,
  SandboxOptions,
  Service,
  ServiceOptions,
  SessionOptions,
  Signal,
} from '../index.js'
import { Engine } from './engine.js'
import { engineError } from './errors.js'
import { exec } from './exec.js'
import { Jobs } from './jobs/jobs.js'
import {
  type ConnectionBounds,
  DEFAULT_SESSION,
  planConnectionStream,
  planExec,
  planExecStream,
} from './options/exec.js'
import { identifier } from './options/ids.js'
import { readArgument, readOptions } from './options/read.js'
import { planSandbox, planSession, type SandboxPlan } from './options/sandbox.js'
import { Processes } from './processes/processes.js'
import { setEnvVarsOptions } from './protocol/session-options.js'
import { Session, setSessionEnv } from './session.js'
import { ExecStream } from './stream/exec-stream.js'
import { localRun } from './stream/local-run.js'
import { shellTag } from './tag.js'

export class Sandbox implements PublicSandbox {
  readonly #plan: SandboxPlan
  readonly #engine: Engine
  readonly #processes: Processes
  readonly jobs: Jobs
  readonly $ = shellTag<Pick<ExecOptions, 'sessionId'>>((command, options) => this.exec(command, options))

  constructor(options?: SandboxOptions) {
    this.#plan = planSandbox(options)
    this.#engine = new Engine(this.#plan.config, this.#plan.logger)
    this.#processes = new Processes(this.#engine, this.#plan.defaults)
    const { cwd, jobsRoot } = this.#plan.config
    this.jobs = new Jobs(this.#engine, { cwd, jobsRoot, graceMs: this.#plan.defaults.forceKillAfterDelay })
  }

  async exec<E extends Encoding = 'utf8', L extends boolean = false>(
    command: Command,
    options?: ExecOptions<E, L>,
  ): Promise<ExecResult<E, L>> {
    const plan = planExec(command, options, this.#plan.defaults)
    return (await exec(this.#engine, plan)) as ExecResult<E, L>
  }

  execStream<E extends Encoding = 'utf8', L extends boolean = false>(
    command: Command,
    options?: ExecOptions<E, L>,
  ): PublicExecStream<E, L> {
    const plan = planExecStream(command, options, this.#plan.defaults)
    return new ExecStream(
      plan,
      localRun(this.#engine, plan),
    ) as PublicExecStream<Encoding> as PublicExecStream<E, L>
  }

  /** `execStream` of a sandbox for a reader at the other end of a connection, with bounds of its own. */
  static connectionStream<E extends Encoding>(
    sandbox: PublicSandbox,
    command: Command,
    options: ExecOptions<E>,
    bounds: ConnectionBounds,
  ): PublicExecStream<E> {
    // What only looks like a sandbox has its own bounds.
    if (!(#plan in sandbox)) return sandbox.execStream(command, options)
    const plan = planConnectionStream(command, options, sandbox.#plan.defaults, bounds)
    const stream: PublicExecStream<Encoding> = new ExecStream(plan, localRun(sandbox.#engine, plan))
    return stream as PublicExecStream<E>
  }

  async startProcess(command: Command, options?: ProcessOptions): Promise<Process> {
    return this.#processes.start(command, options)
  }

  async startService(command: Command, options: ServiceOptions): Promise<Service> {
    return this.#processes.startService(command, options)
  }

  async listProcesses(filter?: ProcessFilter): Promise<Process[]> {
    return this.#processes.list(filter)
  }

  async getProcess(id: string): Promise<Process | null> {
    return this.#processes.get(id)
  }

  async killProcess(id: string, signal?: Signal, options?: KillOptions): Promise<boolean> {
    return this.#processes.kill(id, signal, options)
  }

  async killAllProcesses(): Promise<number> {
    return this.#processes.killAll()
  }

  async cleanupCompletedProcesses(): Promise<number> {
    return this.#processes.cleanUp()
  }

  async getProcessLogs<E extends Encoding = 'utf8'>(
    id: string,
    options?: LogOptions<E>,
  ): Promise<ProcessLogs<E>> {
    return (await this.#processes.logs(id, options)) as ProcessLogs<E>
  }

  streamProcessLogs<E extends Encoding = 'utf8'>(
    id: string,
    options?: LogStreamOptions<E>,
  ): AsyncIterableIterator<LogEvent<E>, undefined> {
    return this.#processes.stream(id, options) as AsyncIterableIterator<LogEvent<E>, undefined>
  }

  async setEnvVars(vars: EnvChanges, options?: { sessionId?: string }): Promise<void> {
    const { sessionId = DEFAULT_SESSION } = readOptions(setEnvVarsOptions, options, 'setEnvVars')
    await setSessionEnv(this.#engine, sessionId, vars)
  }

  async createSession(options?: SessionOptions): Promise<PublicSession> {
    const session = planSession(options, this.#plan.config.cwd, randomUUID)
    if (session.sessionId === DEFAULT_SESSION) {
      throw engineError('SESSION_ALREADY_EXISTS', `the session '${DEFAULT_SESSION}' exists by itself`)
    }
    await this.#engine.call((native, id) => native.createSession(id, session))
    return this.#session(session.sessionId)
  }

  async getSession(id: string): Promise<PublicSession | null> {
    const sessionId = readArgument(identifier, id, 'id')
    return this.#sessionIds().has(sessionId) ? this.#session(sessionId) : null
  }

  async listSessions(): Promise<PublicSession[]> {
    return Array.from(this.#sessionIds(), (id) => this.#session(id))
  }

  async deleteSession(id: string): Promise<void> {
    const sessionId = readArgument(identifier, id, 'id')
    this.#engine.history.forget(sessionId)
    if (sessionId === DEFAULT_SESSION && !this.#engine.sessions().includes(sessionId)) return
    await this.#engine.call((native, call) => native.deleteSession(call, sessionId))
  }

  capabilities(): Capabilities {
    return this.#engine.capabilities()
  }

  destroy(): Promise<void> {
    this.jobs.letGo()
    return this.#engine.destroy()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.destroy()
  }

  /** The default session is there before the engine has heard of it. */
  #sessionIds(): Set<string> {
    return new Set([DEFAULT_SESSION, ...this.#engine.sessions()])
  }

  #session(id: string): Session {
    return new Session(id, this.#engine, this.#plan.defaults, this.#processes)
  }
}
