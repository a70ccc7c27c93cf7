/**
 * A session as callers hold it: an id and the calls that run in it. The state itself lives in the session's shell.
 */
import type {
  Command,
  Encoding,
  EnvChanges,
  ExecResult,
  HistoryEntry,
  HistoryOptions,
  Process,
  ExecStream as PublicExecStream,
  Session as PublicSession,
  SessionExecOptions,
  SessionProcessOptions,
} from '../index.js'
import type { Engine } from './engine.js'
import { engineError, SandboxError } from './errors.js'
import { exec } from './exec.js'
import { envChanges } from './options/env.js'
import { DEFAULT_SESSION, type ExecDefaults, planSessionExec, planSessionExecStream } from './options/exec.js'
import { readArgument, readOptions } from './options/read.js'
import type { Processes } from './processes/processes.js'
import { historyOptions } from './protocol/session-options.js'
import { ExecStream } from './stream/exec-stream.js'
import { localRun } from './stream/local-run.js'
import { shellTag } from './tag.js'

export class Session implements PublicSession {
  readonly id: string
  readonly $ = shellTag((command, options) => this.exec(command, options))
  readonly #engine: Engine
  readonly #defaults: ExecDefaults
  readonly #processes: Processes

  constructor(id: string, engine: Engine, defaults: ExecDefaults, processes: Processes) {
    this.id = id
    this.#engine = engine
    this.#defaults = defaults
    this.#processes = processes
  }

  async exec<E extends Encoding = 'utf8', L extends boolean = false>(
    command: Command,
    options?: SessionExecOptions<E, L>,
  ): Promise<ExecResult<E, L>> {
    const plan = planSessionExec(this.id, command, options, this.#defaults)
    return (await exec(this.#engine, plan)) as ExecResult<E, L>
  }

  execStream<E extends Encoding = 'utf8', L extends boolean = false>(
    command: Command,
    options?: SessionExecOptions<E, L>,
  ): PublicExecStream<E, L> {
    const plan = planSessionExecStream(this.id, command, options, this.#defaults)
    return new ExecStream(
      plan,
      localRun(this.#engine, plan),
    ) as PublicExecStream<Encoding> as PublicExecStream<E, L>
  }

  async startProcess(command: Command, options?: SessionProcessOptions): Promise<Process> {
    return this.#processes.startIn(this.id, command, options)
  }

  async setEnvVars(vars: EnvChanges): Promise<void> {
    await setSessionEnv(this.#engine, this.id, vars)
  }

  async history(options?: HistoryOptions): Promise<HistoryEntry[]> {
    const { limit = historyOptions.limit.default } = readOptions(historyOptions, options, 'session.history')
    if (this.id !== DEFAULT_SESSION && !this.#engine.sessions().includes(this.id))
      throw engineError('SESSION_NOT_FOUND', `there is no session '${this.id}'`)
    return this.#engine.history.of(this.id, limit)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#engine.history.forget(this.id)
    try {
      await this.#engine.call((native, id) => native.deleteSession(id, this.id))
    } catch (error) {
      if (!isGone(error)) throw error
    }
  }
}

/** Checks the variables and sets them in a session, in its turn. */
export async function setSessionEnv(engine: Engine, sessionId: string, vars: unknown): Promise<void> {
  const { names, values } = readArgument(envChanges, vars, 'vars')
  await engine.call((native, id) => native.setEnv(id, sessionId, names, values))
}

function isGone(error: unknown): boolean {
  return (
    error instanceof SandboxError &&
    (error.code === 'SESSION_NOT_FOUND' || error.code === 'SANDBOX_DESTROYED')
  )
}
