/**
 * The methods of a sandbox, written once for every backend: they check arguments, then call the backend. Every failure is a
 * rejection, except that `execStream` and `streamProcessLogs` throw for bad arguments.
 */

import { calledBy } from '../base/call-site.js'
import { invalidOption } from '../base/errors.js'
import type { Hidden } from '../base/redact.js'
import type * as api from '../calls/index.js'
import { answer as readAnswer } from '../calls/questions.js'
import { setEnvVarsOptions } from '../calls/sandbox.js'
import { sessionOptions } from '../calls/session.js'
import { planOf } from '../protocol/endpoint.js'
import { checkpointCalls, processCalls } from '../protocol/simple-calls.js'
import { planEvents } from '../requests/events.js'
import { DEFAULT_SESSION } from '../requests/exec.js'
import { planFilter, planLogStream, readKill } from '../requests/logs.js'
import { checkpointReference } from '../requests/workspace.js'
import { readId } from '../schema/names.js'
import { readOptions, refusal } from '../schema/read.js'
import type { Backend } from './backend.js'
import { Files } from './files.js'
import { processOf } from './process.js'
import { Runner, setEnv } from './runner.js'
import type { Session } from './session.js'
import { Workspace } from './workspace.js'

/** The backend of each sandbox. */
const backends = new WeakMap<object, Backend>()

/**
 * The backend of a `Sandbox` or a `SandboxClient`. Throws OptionError for anything else, and where a method is replaced: who
 * calls the backend would bypass it.
 */
export function backendOf(sandbox: unknown): Backend {
  const backend = backends.get(sandbox as object)
  const rule = 'must be a Sandbox or a SandboxClient from the same copy of nacre'
  if (backend === undefined) throw refusal('sandbox', rule, sandbox)
  const replaced = methods().find(
    (name) => (sandbox as SandboxFacade)[name] !== SandboxFacade.prototype[name],
  )
  if (replaced === undefined) return backend
  throw invalidOption(`sandbox ${rule} with its own ${String(replaced)}(), not with another one`)
}

/** The secrets of a sandbox, as far as this program knows them. */
export function hiddenOf(sandbox: object): Hidden | undefined {
  return backends.get(sandbox)?.hidden
}

/** The methods of a sandbox that call its backend. */
function methods(): (keyof SandboxFacade)[] {
  const names = [Runner.prototype, SandboxFacade.prototype].flatMap((own) => Object.getOwnPropertyNames(own))
  return names.filter((name) => name !== 'constructor' && name !== 'destroy') as (keyof SandboxFacade)[]
}

export class SandboxFacade<S extends Session = Session>
  extends Runner
  implements Omit<api.AnySandbox<S>, 'jobs'>
{
  readonly files: Files
  readonly workspace: Workspace
  readonly #backend: Backend
  readonly #session: (id: string) => S

  /** `session` makes the object of a session. */
  constructor(backend: Backend, session: (id: string) => S) {
    super(backend)
    this.#backend = backend
    this.#session = session
    backends.set(this, backend)
    this.files = new Files(backend.files(DEFAULT_SESSION))
    this.workspace = new Workspace(backend.workspace)
  }

  async capabilities(): Promise<api.Capabilities> {
    return this.#backend.capabilities()
  }

  async stats(): Promise<api.SandboxStats> {
    return calledBy(this.stats, this.#backend.stats())
  }

  async ports(): Promise<api.OpenPort[]> {
    return calledBy(this.ports, this.#backend.ports())
  }

  async questions(): Promise<api.Question[]> {
    return calledBy(this.questions, this.#backend.questions())
  }

  async answer(id: string, given: api.Answer): Promise<boolean> {
    const [questionId, answer] = [readId(id), readAnswer.read(given, 'answer')]
    return calledBy(this.answer, this.#backend.answer({ questionId, answer }))
  }

  async listProcesses(filter?: api.ProcessFilter): Promise<api.Process[]> {
    return (await this.#backend.listProcesses(planFilter(filter))).map(processOf)
  }

  async getProcess(id: string): Promise<api.Process | null> {
    const found = await this.#backend.findProcess(readId(id))
    return found && processOf(found)
  }

  async killProcess(id: string, signal?: api.Signal, options?: api.KillOptions): Promise<boolean> {
    const processId = readId(id)
    const request = readKill(signal, options, 'killProcess')
    return this.#backend.process(processId).kill(request)
  }

  async killAllProcesses(): Promise<number> {
    return this.#backend.killAllProcesses()
  }

  async cleanupCompletedProcesses(): Promise<number> {
    return this.#backend.cleanUpProcesses()
  }

  async getProcessLogs<E extends api.Encoding = 'utf8'>(
    id: string,
    options?: api.LogOptions<E>,
  ): Promise<api.ProcessLogs<E>> {
    const processId = readId(id)
    const plan = planOf({ ...processCalls.logs, name: 'getProcessLogs' }, options)
    return (await this.#backend.process(processId).logs(plan)) as api.ProcessLogs<E>
  }

  streamProcessLogs<E extends api.Encoding = 'utf8'>(
    id: string,
    options?: api.LogStreamOptions<E>,
  ): AsyncIterableIterator<api.LogEvent<E>, undefined> {
    const processId = readId(id)
    const stream = this.#backend.process(processId).output(planLogStream(options, 'streamProcessLogs'))
    return stream as AsyncIterableIterator<api.LogEvent<E>, undefined>
  }

  async setEnvVars(vars: api.EnvChanges, options?: { sessionId?: string }): Promise<void> {
    const { sessionId = DEFAULT_SESSION } = readOptions(setEnvVarsOptions, options, 'setEnvVars')
    await calledBy(this.setEnvVars, setEnv(this.#backend, sessionId, vars))
  }

  async createSession(options?: api.SessionOptions): Promise<S> {
    return this.#session(
      await this.#backend.createSession(readOptions(sessionOptions, options, 'createSession')),
    )
  }

  async getSession(id: string): Promise<S | null> {
    const sessionId = readId(id)
    return (await this.#backend.hasSession(sessionId)) ? this.#session(sessionId) : null
  }

  async listSessions(): Promise<S[]> {
    return (await this.#backend.listSessions()).map((id) => this.#session(id))
  }

  async deleteSession(id: string): Promise<void> {
    await this.#backend.deleteSession(readId(id))
  }

  events(options?: api.EventOptions): AsyncIterableIterator<api.SandboxEvent, undefined> {
    return this.#backend.events(planEvents(options))
  }

  async checkpoint(options?: api.CheckpointOptions): Promise<api.Checkpoint> {
    return calledBy(this.checkpoint, this.#backend.checkpoints.make(planOf(checkpointCalls.make, options)))
  }

  async checkpoints(): Promise<api.Checkpoint[]> {
    return calledBy(this.checkpoints, this.#backend.checkpoints.list())
  }

  async deleteCheckpoint(point: api.Checkpoint | string): Promise<void> {
    const checkpointId = checkpointReference(point)
    return calledBy(this.deleteCheckpoint, this.#backend.checkpoints.delete({ checkpointId }))
  }

  async rollback(point: api.Checkpoint | string): Promise<api.Rollback> {
    const checkpointId = checkpointReference(point)
    return calledBy(this.rollback, this.#backend.checkpoints.rollBack({ checkpointId }))
  }

  async undo(): Promise<api.Undo> {
    return calledBy(this.undo, this.#backend.checkpoints.undo())
  }

  destroy(): Promise<void> {
    return this.#backend.destroy()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.destroy()
  }
}
