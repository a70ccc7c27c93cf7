/**
 * SandboxClient: the methods of Sandbox, on a server.
 */
import type {
  ClientOptions,
  RemoteProcess as PublicProcess,
  SandboxClient as PublicSandboxClient,
  RemoteService as PublicService,
  RemoteSession as PublicSession,
} from '../../client.js'
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
  ProcessFilter,
  ProcessLogs,
  ProcessOptions,
  ExecStream as PublicExecStream,
  ServiceOptions,
  SessionOptions,
  Signal,
} from '../../index.js'
import { SandboxError } from '../errors.js'
import { readCommand } from '../options/command.js'
import { DEFAULT_SESSION } from '../options/exec.js'
import { identifier } from '../options/ids.js'
import { planFilter } from '../options/logs.js'
import { readArgument, readOptions } from '../options/read.js'
import { encodeOptions } from '../protocol/codec.js'
import { sessionOptions, setEnvVarsOptions } from '../protocol/session-options.js'
import { shellTag } from '../tag.js'
import { Begun } from './begun.js'
import { exec, execStream, type Place, setEnv, startProcess } from './calls.js'
import { Connection } from './connection.js'
import { RemoteJobs } from './jobs.js'
import { planClient } from './options.js'
import { isGone, logStream, processPath, RemoteProcess, type WireProcess } from './process.js'
import { startService } from './service-start.js'
import { RemoteSession } from './session.js'
import { Turns } from './turns.js'

export class SandboxClient implements PublicSandboxClient {
  readonly jobs: RemoteJobs
  readonly $ = shellTag<Pick<ExecOptions, 'sessionId'>>((command, options) => this.exec(command, options))
  readonly #place: Place
  #destroyed: Promise<void> | undefined

  constructor(options: ClientOptions) {
    const connection = new Connection(planClient(options))
    this.#place = { connection, begun: new Begun(connection), turns: new Turns() }
    this.jobs = new RemoteJobs(connection)
  }

  async exec<E extends Encoding = 'utf8', L extends boolean = false>(
    command: Command,
    options?: ExecOptions<E, L>,
  ): Promise<ExecResult<E, L>> {
    return (await exec(this.#place, command, options)) as ExecResult<E, L>
  }

  execStream<E extends Encoding = 'utf8', L extends boolean = false>(
    command: Command,
    options?: ExecOptions<E, L>,
  ): PublicExecStream<E, L> {
    const stream: PublicExecStream<Encoding> = execStream(this.#place, command, options)
    return stream as PublicExecStream<E, L>
  }

  async startProcess(command: Command, options?: ProcessOptions): Promise<PublicProcess> {
    return startProcess(this.#place, command, options)
  }

  async startService(command: Command, options: ServiceOptions): Promise<PublicService> {
    return startService(this.#place, readArgument(readCommand, command, 'command'), options)
  }

  async listProcesses(filter?: ProcessFilter): Promise<PublicProcess[]> {
    const { status, sessionId } = planFilter(filter)
    if (status?.size === 0) return []
    const query = { status: status && [...status].join(','), sessionId }
    const { processes } = await this.#get<{ processes: WireProcess[] }>('/v1/processes', query)
    return processes.map((info) => new RemoteProcess(this.#place.connection, info))
  }

  async getProcess(id: string): Promise<PublicProcess | null> {
    const path = processPath(readArgument(identifier, id, 'id'), '')
    try {
      return new RemoteProcess(this.#place.connection, await this.#get<WireProcess>(path))
    } catch (error) {
      if (has(error, 'PROCESS_NOT_FOUND')) return null
      throw error
    }
  }

  async killProcess(id: string, signal?: Signal, options?: KillOptions): Promise<boolean> {
    return this.#process(id).kill(signal, options)
  }

  async killAllProcesses(): Promise<number> {
    return this.#count('/v1/processes/kill-all', true)
  }

  async cleanupCompletedProcesses(): Promise<number> {
    return this.#count('/v1/processes/cleanup')
  }

  async getProcessLogs<E extends Encoding = 'utf8'>(
    id: string,
    options?: LogOptions<E>,
  ): Promise<ProcessLogs<E>> {
    return this.#process(id).getLogs(options)
  }

  streamProcessLogs<E extends Encoding = 'utf8'>(
    id: string,
    options?: LogStreamOptions<E>,
  ): AsyncIterableIterator<LogEvent<E>, undefined> {
    const processId = readArgument(identifier, id, 'id')
    const stream: AsyncIterableIterator<LogEvent<Encoding>, undefined> = logStream(
      this.#place.connection,
      processId,
      options,
      'streamProcessLogs',
    )
    return stream as AsyncIterableIterator<LogEvent<E>, undefined>
  }

  async setEnvVars(vars: EnvChanges, options?: { sessionId?: string }): Promise<void> {
    const { sessionId = DEFAULT_SESSION } = readOptions(setEnvVarsOptions, options, 'setEnvVars')
    await setEnv(this.#place, vars, sessionId)
  }

  async createSession(options?: SessionOptions): Promise<PublicSession> {
    const body = encodeOptions(sessionOptions, readOptions(sessionOptions, options, 'createSession'))
    const { connection, begun } = this.#place
    const request = connection.call<{ id: string }>({ path: '/v1/sessions', body })
    const { id } = await begun.starting(request.then((reply) => begun.addSession(reply)))
    return new RemoteSession(id, this.#place)
  }

  async getSession(id: string): Promise<PublicSession | null> {
    const sessionId = readArgument(identifier, id, 'id')
    try {
      await this.#get(`/v1/sessions/${sessionId}`)
      return new RemoteSession(sessionId, this.#place)
    } catch (error) {
      if (has(error, 'SESSION_NOT_FOUND')) return null
      throw error
    }
  }

  async listSessions(): Promise<PublicSession[]> {
    const { sessions } = await this.#get<{ sessions: Array<{ id: string }> }>('/v1/sessions')
    return sessions.map(({ id }) => new RemoteSession(id, this.#place))
  }

  async deleteSession(id: string): Promise<void> {
    const sessionId = readArgument(identifier, id, 'id')
    await this.#place.connection.call({ method: 'DELETE', path: `/v1/sessions/${sessionId}`, waits: true })
    this.#place.begun.sessions.delete(sessionId)
  }

  async capabilities(): Promise<Capabilities> {
    return this.#get('/v1/capabilities')
  }

  destroy(): Promise<void> {
    this.#destroyed ??= this.#destroy()
    return this.#destroyed
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.destroy()
  }

  /** What was begun from here goes, whatever of it is there still; what others have begun stays. */
  async #destroy(): Promise<void> {
    const { connection, begun } = this.#place
    try {
      await begun.settled()
      const running = await begun.runningProcesses()
      await Promise.all([
        ...running.map((id) => this.#process(id).kill().catch(ignore(isGone))),
        ...Array.from(begun.sessions, (id) => this.deleteSession(id).catch(ignore(isNoSession))),
      ])
    } finally {
      connection.close()
    }
  }

  /** Known by its id alone. */
  #process(id: string): RemoteProcess {
    const processId = readArgument(identifier, id, 'id')
    return new RemoteProcess(this.#place.connection, { id: processId } as WireProcess)
  }

  async #count(path: string, waits = false): Promise<number> {
    const { count } = await this.#place.connection.call<{ count: number }>({ path, waits })
    return count
  }

  #get<T>(path: string, query?: Record<string, string | undefined>): Promise<T> {
    return this.#place.connection.call<T>({ method: 'GET', path, query })
  }
}

function has(error: unknown, code: string): boolean {
  return error instanceof SandboxError && error.code === code
}

function isNoSession(error: unknown): boolean {
  return has(error, 'SESSION_NOT_FOUND')
}

function ignore(isFine: (error: unknown) => boolean): (error: unknown) => void {
  return (error) => {
    if (!isFine(error)) throw error
  }
}
