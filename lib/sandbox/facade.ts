/**
 * The methods of a sandbox, written once for every backend: they check arguments, then call the backend. Every failure is a
 * rejection, except that `execStream` and `streamProcessLogs` throw for bad arguments.
 */

import { calledBy } from '../base/call-site.js'
import { sessionOptions, setEnvVarsOptions } from '../protocol/session-options.js'
import type {
  Command,
  Encoding,
  EnvChanges,
  KillOptions,
  LogEvent,
  LogOptions,
  LogStreamOptions,
  Process,
  ProcessFilter,
  ProcessLogs,
  Service as PublicService,
  Session as PublicSession,
  Sandbox,
  ServiceOptions,
  SessionOptions,
  Signal,
} from '../public/index.js'
import { DEFAULT_SESSION } from '../requests/exec.js'
import { planFilter, planLogStream, planLogs, readKill } from '../requests/logs.js'
import { readService } from '../requests/service.js'
import { identifier } from '../schema/names.js'
import { readArgument, readOptions } from '../schema/read.js'
import type { Backend } from './backend.js'
import { Files } from './files.js'
import { processOf, show } from './process.js'
import { Runner, setEnv, startWith } from './runner.js'
import { Service } from './service.js'
import { Session } from './session.js'

export class SandboxFacade extends Runner implements Omit<Sandbox, 'capabilities' | 'jobs'> {
  readonly files: Files
  readonly #backend: Backend

  constructor(backend: Backend) {
    super(backend)
    this.#backend = backend
    this.files = new Files(backend.files(DEFAULT_SESSION))
  }

  async startService(command: Command, options: ServiceOptions): Promise<PublicService> {
    const request = readService(command, options)
    let service: Service | undefined
    return startWith(this.#backend, request.process, async () => {
      const started = await this.#backend.startService(request, (backend) => {
        service ??= show(backend, new Service(backend))
        return service
      })
      return service ?? show(started, new Service(started))
    })
  }

  async listProcesses(filter?: ProcessFilter): Promise<Process[]> {
    return (await this.#backend.listProcesses(planFilter(filter))).map(processOf)
  }

  async getProcess(id: string): Promise<Process | null> {
    const found = await this.#backend.findProcess(readArgument(identifier.read, id, 'id'))
    return found && processOf(found)
  }

  async killProcess(id: string, signal?: Signal, options?: KillOptions): Promise<boolean> {
    const processId = readArgument(identifier.read, id, 'id')
    const request = readKill(signal, options, 'killProcess')
    return this.#backend.process(processId).kill(request)
  }

  async killAllProcesses(): Promise<number> {
    return this.#backend.killAllProcesses()
  }

  async cleanupCompletedProcesses(): Promise<number> {
    return this.#backend.cleanUpProcesses()
  }

  async getProcessLogs<E extends Encoding = 'utf8'>(
    id: string,
    options?: LogOptions<E>,
  ): Promise<ProcessLogs<E>> {
    const processId = readArgument(identifier.read, id, 'id')
    const { encoding } = planLogs(options, 'getProcessLogs')
    return (await this.#backend.process(processId).logs(encoding)) as ProcessLogs<E>
  }

  streamProcessLogs<E extends Encoding = 'utf8'>(
    id: string,
    options?: LogStreamOptions<E>,
  ): AsyncIterableIterator<LogEvent<E>, undefined> {
    const processId = readArgument(identifier.read, id, 'id')
    const stream = this.#backend.process(processId).output(planLogStream(options, 'streamProcessLogs'))
    return stream as AsyncIterableIterator<LogEvent<E>, undefined>
  }

  async setEnvVars(vars: EnvChanges, options?: { sessionId?: string }): Promise<void> {
    const { sessionId = DEFAULT_SESSION } = readOptions(setEnvVarsOptions, options, 'setEnvVars')
    await calledBy(this.setEnvVars, setEnv(this.#backend, sessionId, vars))
  }

  async createSession(options?: SessionOptions): Promise<PublicSession> {
    return this.#session(
      await this.#backend.createSession(readOptions(sessionOptions, options, 'createSession')),
    )
  }

  async getSession(id: string): Promise<PublicSession | null> {
    const sessionId = readArgument(identifier.read, id, 'id')
    return (await this.#backend.hasSession(sessionId)) ? this.#session(sessionId) : null
  }

  async listSessions(): Promise<PublicSession[]> {
    return (await this.#backend.listSessions()).map((id) => this.#session(id))
  }

  async deleteSession(id: string): Promise<void> {
    await this.#backend.deleteSession(readArgument(identifier.read, id, 'id'))
  }

  destroy(): Promise<void> {
    return this.#backend.destroy()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.destroy()
  }

  #session(id: string): Session {
    return new Session(this.#backend, id)
  }
}
