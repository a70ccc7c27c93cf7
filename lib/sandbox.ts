/**
 * The sandbox as callers hold it: checks arguments, then asks the engine. Every method but the constructor and
 * `capabilities` returns a promise, and whatever goes wrong is its rejection.
 */
import { randomUUID } from 'node:crypto'
import type {
  Capabilities,
  Command,
  Encoding,
  EnvChanges,
  ExecOptions,
  ExecResult,
  Sandbox as PublicSandbox,
  Session as PublicSession,
  SandboxOptions,
  SessionOptions,
} from '../index'
import { Engine } from './engine'
import { engineError } from './errors'
import { exec } from './exec'
import { DEFAULT_SESSION, planExec } from './options/exec'
import { identifier } from './options/ids'
import { readArgument, readOptions } from './options/read'
import { planSandbox, planSession, type SandboxPlan, setEnvVarsOptions } from './options/sandbox'
import { Session, setSessionEnv } from './session'

export class Sandbox implements PublicSandbox {
  readonly #plan: SandboxPlan
  readonly #engine: Engine

  constructor(options?: SandboxOptions) {
    this.#plan = planSandbox(options)
    this.#engine = new Engine(this.#plan.config, this.#plan.logger)
  }

  async exec<E extends Encoding = 'utf8'>(
    command: Command,
    options?: ExecOptions<E>,
  ): Promise<ExecResult<E>> {
    const plan = planExec(command, options, this.#plan.defaults)
    return (await exec(this.#engine, plan)) as ExecResult<E>
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
    if (sessionId === DEFAULT_SESSION && !this.#engine.sessions().includes(sessionId)) return
    await this.#engine.call((native, call) => native.deleteSession(call, sessionId))
  }

  capabilities(): Capabilities {
    return this.#engine.capabilities()
  }

  destroy(): Promise<void> {
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
    return new Session(id, this.#engine, this.#plan.defaults)
  }
}
