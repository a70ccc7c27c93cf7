/** A server as the backend of a sandbox. */
import { ignoring, invalidOption, isCode, SandboxError } from '../../base/errors.js'
import type { Logger, LostSandbox } from '../../calls/index.js'
import { portUrlOptions } from '../../calls/ports.js'
import { sessionOptions } from '../../calls/session.js'
import { encodeOptions } from '../../protocol/codec.js'
import type { Endpoint } from '../../protocol/endpoint.js'
import * as endpoints from '../../protocol/endpoints.js'
import { backendCalls } from '../../protocol/simple-calls.js'
import type { EventPlan } from '../../requests/events.js'
import type { ExecRequest } from '../../requests/exec.js'
import type { ProcessFilter } from '../../requests/logs.js'
import type { ProcessRequest } from '../../requests/process.js'
import type { ServiceRequest } from '../../requests/service.js'
import type { Result, RunObserver, StreamRun } from '../../run/run.js'
import { AS_STARTED, attach, startProcess } from '../../run/start-process.js'
import type { Backend, FilesBackend, HoldBackend, ProcessBackend } from '../../sandbox/backend.js'
import { processOf } from '../../sandbox/process.js'
import { type EnvLists, encodeEnv } from '../../schema/env.js'
import { functionsOf } from '../../schema/isolation-rules.js'
import type { OptionValues } from '../../schema/kind.js'
import { HttpArchives } from './archives.js'
import { HttpCheckpoints } from './checkpoints.js'
import { Connection } from './connection.js'
import { HttpEvents } from './events.js'
import { HttpFiles } from './files.js'
import { beginHold, holdHeaders } from './hold.js'
import type { InputOrder } from './input-order.js'
import { HttpJobs } from './jobs.js'
import type { ClientPlan } from './options.js'
import { Owned } from './owned.js'
import { execHeaders, planExec, planLiveExec, planProcess, planService } from './plan.js'
import { HttpProcess } from './process.js'
import { RemoteRun, SILENT } from './remote-run.js'
import type { Details } from './request.js'
import { HttpService } from './service.js'
import { SessionQueues } from './session-queues.js'
import { withCalls } from './simple-calls.js'
import { HttpWorkspace } from './workspace.js'

/** Why a sandbox is lost, for messages. */
const CAUSES: Record<LostSandbox['reason'], string> = {
  deleted: 'it was deleted',
  expired: 'it was not used for its time to live',
  stopped: 'its pod has ended',
  replaced: 'its server has been replaced or restarted',
  disconnected: 'the program that leads to it has ended',
}

export class HttpBackend extends withCalls(backendCalls) implements Backend {
  readonly logger: Logger | undefined
  readonly jobs: HttpJobs
  readonly workspace: HttpWorkspace
  readonly checkpoints: HttpCheckpoints
  readonly archives: HttpArchives
  readonly #name: string
  /** What this client has started there. */
  readonly #owned: Owned
  readonly #queues = new SessionQueues()
  #destroyed: Promise<void> | undefined

  constructor(plan: ClientPlan) {
    const connection = new Connection(plan, (reason) => this.lossError(reason))
    super(connection)
    this.logger = plan.logger
    this.#name = plan.route.name
    this.#owned = new Owned(this.connection)
    this.jobs = new HttpJobs(this.connection)
    this.workspace = new HttpWorkspace(this.connection)
    this.checkpoints = new HttpCheckpoints(this.connection, this.#queues)
    this.archives = new HttpArchives(this.connection)
  }

  /** Sends one request, unless a callback, a signal or input needs the live run. */
  async exec(request: ExecRequest, observer: RunObserver | undefined): Promise<Result> {
    const { sessionId, encoding } = request
    const body = observer === undefined ? planExec(request) : undefined
    if (body === undefined) return this.stream(request, observer ?? SILENT).outcome
    const details = { body, encoding, headers: execHeaders(request) }
    const { result, process } = await this.#inTurn(sessionId, endpoints.exec, details)
    return process === undefined ? result : { ...result, process: processOf(this.#adopt(process)) }
  }

  stream(request: ExecRequest, observer: RunObserver): StreamRun {
    const slot = this.#queues.take(request.sessionId)
    const adopt = (process: endpoints.NamedProcess, input: InputOrder) => this.#adopt(process, input)
    return new RemoteRun(this.connection, request, planLiveExec(request), observer, slot, adopt, this.logger)
  }

  /** Keeps the process that a command has become. */
  #adopt(process: endpoints.NamedProcess, input?: InputOrder): HttpProcess {
    return new HttpProcess(this.connection, this.#owned.addProcess(process), false, input)
  }

  traced(request: ExecRequest, perform: (request: ExecRequest) => Promise<Result>): Promise<Result> {
    return perform(request)
  }

  startProcess(request: ProcessRequest): Promise<HttpProcess> {
    const { body, source } = planProcess(request)
    const launch = async () => {
      const headers = holdHeaders(request.hold)
      const call = this.connection.call(endpoints.startProcess, { body, headers })
      const info = await this.#owned.starting(call.then((started) => this.#owned.addProcess(started)))
      return new HttpProcess(this.connection, info, request.values.pty !== undefined)
    }
    return startProcess({ request, source, logger: this.logger, launch, introduce: processOf })
  }

  async startService({ process, ...rest }: ServiceRequest): Promise<HttpService> {
    const { body, source } = planService({ process, ...rest })
    const { signal } = process.values
    const launch = async () => {
      // The server kills a service whose client disconnects while it is being started.
      const asked = { body, signal, headers: holdHeaders(process.hold), subject: 'the process' }
      const info = this.#owned.addProcess(await this.connection.call(endpoints.startService, asked))
      return new HttpService(this.connection, info, process.values.pty !== undefined)
    }
    const start = { request: process, source, logger: this.logger, launch, introduce: processOf }
    const service = await startProcess(start)
    service.onStart = () => process.callbacks.onStart?.(processOf(service))
    service.watchAgain = () => {
      service.onStart()
      attach(service, start)
    }
    return service
  }

  async listProcesses({ status, sessionId }: ProcessFilter): Promise<ProcessBackend[]> {
    if (status?.size === 0) return []
    const query = { status: status && [...status].join(','), sessionId }
    const processes = await this.connection.call(endpoints.listProcesses, { query })
    return processes.map((info) => new HttpProcess(this.connection, info))
  }

  async findProcess(id: string): Promise<ProcessBackend | null> {
    const call = this.connection.call(endpoints.getProcess, { params: { processId: id } })
    const info = await ignoring(call, 'PROCESS_NOT_FOUND')
    return info === undefined ? null : new HttpProcess(this.connection, info)
  }

  /** Only its id is known. */
  process(id: string): ProcessBackend {
    return new HttpProcess(this.connection, endpoints.getProcess.reply.decode({ id }))
  }

  async setEnv(sessionId: string, env: EnvLists, hold: string | undefined): Promise<void> {
    const body = { vars: encodeEnv(env), sessionId }
    await this.#inTurn(sessionId, endpoints.setEnv, { body, headers: holdHeaders(hold) })
  }

  async createSession(values: OptionValues<typeof sessionOptions>): Promise<string> {
    const [own] = functionsOf(values.isolation ?? {})
    if (own !== undefined) throw invalidOption(localOnly(own[0]))
    const body = encodeOptions(sessionOptions, values)
    const call = this.connection.call(endpoints.createSession, { body })
    return await this.#owned.starting(call.then((id) => this.#owned.addSession(id)))
  }

  async hasSession(id: string): Promise<boolean> {
    const call = this.connection.call(endpoints.getSession, { params: { sessionId: id } })
    return (await ignoring(call, 'SESSION_NOT_FOUND')) !== undefined
  }

  async deleteSession(id: string): Promise<void> {
    const slot = this.#queues.replace(id)
    try {
      await this.connection.call(endpoints.deleteSession, { params: { sessionId: id } })
    } finally {
      slot.end()
    }
    this.#owned.sessions.delete(id)
  }

  async portUrl(port: number, values: OptionValues<typeof portUrlOptions>): Promise<string> {
    const body = { port, ...encodeOptions(portUrlOptions, values) }
    const { path, host } = await this.connection.call(endpoints.portLink, { body })
    if (host === undefined) return this.connection.urlOf(path)
    // A browser finds it where this program finds the server, through a tunnel for example.
    const url = new URL(await this.connection.urlOf('/'))
    return `${url.protocol}//${host}${url.port && `:${url.port}`}${path}`
  }

  hold(sessionId: string, owner: string): Promise<HoldBackend> {
    const path = `/v1/sessions/${sessionId}/hold`
    return beginHold(this.connection, { path, owner }, endpoints.releaseSession, { params: { sessionId } })
  }

  files(sessionId: string): FilesBackend {
    return new HttpFiles(this.connection, sessionId)
  }

  events(plan: EventPlan): HttpEvents {
    return new HttpEvents(this.connection, plan)
  }

  get isDestroyed(): boolean {
    return this.#destroyed !== undefined
  }

  destroy(): Promise<void> {
    this.#destroyed ??= this.#destroy()
    return this.#destroyed
  }

  /** Kills the processes and deletes the sessions that this client has started, and nothing else. */
  async #destroy(): Promise<void> {
    try {
      await this.#owned.settled()
      const running = await this.#owned.runningProcesses()
      await Promise.all([
        ...running.map((info) =>
          ignoring(new HttpProcess(this.connection, info).kill(AS_STARTED), 'SANDBOX_DESTROYED'),
        ),
        ...Array.from(this.#owned.sessions, (id) => ignoring(this.deleteSession(id), 'SESSION_NOT_FOUND')),
      ])
    } finally {
      await this.connection.close()
    }
  }

  /** Resolves with the server's instance, when the server takes calls. Nothing runs. */
  connect(signal?: AbortSignal): Promise<string | undefined> {
    return this.connection.connect(signal)
  }

  /** Ends the requests, and leaves everything on the server alone. */
  leave(isServerGone = false): Promise<void> {
    this.#destroyed ??= this.connection.close(isServerGone)
    return this.#destroyed
  }

  /** What was lost, when the sandbox is. */
  get lost(): LostSandbox | undefined {
    const reason = this.connection.lost
    return reason && this.#losses(this.#name, reason)
  }

  /** Pending requests. */
  get active(): number {
    return this.connection.active
  }

  /** Ends the requests: the sandbox is lost. */
  lose(reason: LostSandbox['reason']): void {
    this.connection.lose(reason)
  }

  #losses(sandbox: string, reason: LostSandbox['reason']): LostSandbox {
    return { sandbox, reason, processes: this.#owned.processes, sessions: [...this.#owned.sessions] }
  }

  /** The error of calls after the loss. */
  lossError(reason: LostSandbox['reason']): SandboxError {
    const sandbox = this.#name
    const lost = this.#losses(sandbox, reason)
    const count = lost.processes.length
    const processes = count === 0 ? '' : `${count} ${count === 1 ? 'process' : 'processes'}, `
    const message = `the sandbox ${sandbox} is lost (${CAUSES[reason]}), with ${processes}its shells and all files that are not on a volume`
    return new SandboxError('SANDBOX_LOST', message, { lost })
  }

  async #inTurn<T>(sessionId: string, endpoint: Endpoint<T>, details: Details): Promise<T> {
    const slot = this.#queues.take(sessionId)
    try {
      if (slot.begins !== undefined) await slot.begins
      return await this.connection.call(endpoint, details)
    } catch (error) {
      if (isCode(error, 'SESSION_DESTROYED', 'ROLLED_BACK')) slot.destroy(error)
      throw error
    } finally {
      slot.end()
    }
  }
}

function localOnly(option: string): string {
  const remedy = option.endsWith('.ask')
    ? 'use true, and questions() and answer() of this client'
    : 'give it to the sandbox of the server'
  return `${option} must not be a function, which works only in the process of the sandbox: ${remedy}`
}
