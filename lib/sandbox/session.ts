/**
 * The public object for a session: an id and the calls that run in it. The session's shell has the state.
 */
import { calledBy } from '../base/call-site.js'
import { ignoring } from '../base/errors.js'
import { holdOwner } from '../calls/hold.js'
import type * as api from '../calls/index.js'
import { wanted } from '../calls/isolation.js'
import { planOf } from '../protocol/endpoint.js'
import { backendCalls } from '../protocol/simple-calls.js'
import { readCommandKill } from '../requests/logs.js'
import { readId } from '../schema/names.js'
import { readArgument } from '../schema/read.js'
import type { Backend } from './backend.js'
import { Files } from './files.js'
import { Hold } from './hold.js'
import { Runner, setEnv } from './runner.js'

export class Session extends Runner implements api.AnySession {
  readonly id: string
  readonly files: Files
  readonly #backend: Backend
  readonly #hold: string | undefined

  /** `hold`: the caller's. */
  constructor(backend: Backend, id: string, hold?: string) {
    super(backend, id, hold)
    this.id = id
    this.#hold = hold
    this.#backend = backend
    this.files = new Files(backend.files(id))
  }

  async setEnvVars(vars: api.EnvChanges): Promise<void> {
    await calledBy(this.setEnvVars, setEnv(this.#backend, this.id, vars, this.#hold))
  }

  async history(options?: api.HistoryOptions): Promise<api.HistoryEntry[]> {
    return this.#backend.history({ sessionId: this.id, ...planOf(backendCalls.history, options) })
  }

  async running(): Promise<api.RunningCommand[]> {
    return calledBy(this.running, this.#backend.running({ sessionId: this.id }))
  }

  async stats(): Promise<api.SessionStats> {
    return calledBy(this.stats, this.#backend.sessionStats({ sessionId: this.id }))
  }

  async ports(): Promise<api.OpenPort[]> {
    return calledBy(this.ports, this.#backend.sessionPorts({ sessionId: this.id }))
  }

  async denials(): Promise<api.Denial[]> {
    return calledBy(this.denials, this.#backend.denials({ sessionId: this.id }))
  }

  async why(target: string, options?: api.WhyOptions): Promise<api.Denial[]> {
    const about = {
      target: readArgument(wanted.read, target, 'target'),
      ...planOf(backendCalls.why, options),
    }
    return calledBy(this.why, this.#backend.why({ sessionId: this.id, ...about }))
  }

  async killCommand(id: string, signal?: api.Signal, options?: api.KillReason): Promise<boolean> {
    const command = { sessionId: this.id, commandId: readId(id) }
    const kill = readCommandKill(signal, options, 'session.killCommand')
    return calledBy(this.killCommand, this.#backend.killCommand({ ...command, ...kill }))
  }

  async hold(owner: string): Promise<api.Hold<this>> {
    const name = readArgument(holdOwner.read, owner, 'owner')
    const hold = await calledBy(this.hold, this.#backend.hold(this.id, name))
    return new Hold(name, hold, Reflect.construct(this.constructor, [this.#backend, this.id, hold.id]))
  }

  async delete(): Promise<void> {
    await this.#backend.deleteSession(this.id)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await ignoring(this.delete(), 'SESSION_NOT_FOUND', 'SANDBOX_DESTROYED')
  }
}
