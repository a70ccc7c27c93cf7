/**
 * A session as callers hold it: an id and the calls that run in it. The state itself lives in the session's shell.
 */

import type { Engine } from '../backends/native/engine.js'
import { exec } from '../backends/native/exec.js'
import type { Processes } from '../backends/native/processes/processes.js'
import { localRun } from '../backends/native/stream-run.js'
import { engineError, SandboxError } from '../base/errors.js'
import { envChanges } from '../options/env.js'
import {
  DEFAULT_SESSION,
  type ExecDefaults,
  planSessionExec,
  planSessionExecStream,
} from '../options/exec.js'
import { readArgument, readOptions } from '../options/read.js'
import { historyOptions } from '../protocol/session-options.js'
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
} from '../public/index.js'
import { ExecStream } from '../run/exec-stream.js'
import { shellTag } from './tag.js'

export class Session implements PublicSession {
  readonly id: string
  readonly $ = shellTag((command, options?: SessionExecOptions) => this.exec(command, options))
  readonly #engine: Engine
  readonly #defaults: ExecDefaults
  readonly #processes: Processes

  constructor(id: string, engine: Engine, defaults: ExecDefaults, processes: Processes) {
    this.id = id
    this.#engine = engine
    this.#defaults = defaults
    this.#processes = processes
  }

  async exec<E extends Encoding = 'utf8'>(
    command: Command,
    options?: SessionExecOptions<E>,
  ): Promise<ExecResult<E>> {
    const plan = planSessionExec(this.id, command, options, this.#defaults)
    return (await exec(this.#engine, plan)) as ExecResult<E>
  }

  execStream<E extends Encoding = 'utf8'>(
    command: Command,
    options?: SessionExecOptions<E>,
  ): PublicExecStream<E> {
    const plan = planSessionExecStream(this.id, command, options, this.#defaults)
    return new ExecStream(
      plan,
      localRun(this.#engine, plan),
    ) as PublicExecStream<Encoding> as PublicExecStream<E>
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
