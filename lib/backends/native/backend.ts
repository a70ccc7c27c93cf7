/** The backend of a sandbox in this process, on the engine. */
import type { Duplex } from 'node:stream'
import { crypto } from '../../base/builtin.js'
import { engineError, unknownId } from '../../base/errors.js'
import type { Hidden } from '../../base/redact.js'
import { resolveFrom } from '../../base/working-directory.js'
import type { NativeKilledBy, NativeProcess, NativeQuestion, NativeSandbox } from '../../boundary/index.js'
import type * as api from '../../calls/index.js'
import type { sessionOptions } from '../../calls/session.js'
import type { archiveOptions, suspendOptions } from '../../calls/suspend.js'
import type { EventPlan } from '../../requests/events.js'
import { DEFAULT_SESSION, type ExecRequest } from '../../requests/exec.js'
import type { CommandKill, ProcessFilter } from '../../requests/logs.js'
import type { ProcessRequest } from '../../requests/process.js'
import type { ServiceRequest } from '../../requests/service.js'
import type { Result, RunObserver, StreamRun } from '../../run/run.js'
import type {
  Backend,
  FilesBackend,
  HoldBackend,
  ProcessBackend,
  ServiceBackend,
} from '../../sandbox/backend.js'
import { serveCall } from '../../sandbox/host-commands.js'
import type { EnvLists } from '../../schema/env.js'
import type { CompleteValues, OptionValues } from '../../schema/kind.js'
import { hostIn } from '../../schema/targets.js'
import { Attachments } from './attachments.js'
import type { Observer } from './call-table.js'
import { type Branch, NativeCheckpoints } from './checkpoints.js'
import { denialOf } from './denials.js'
import { abortable, Engine } from './engine.js'
import { NativeEvents } from './events.js'
import { exec, stream } from './exec.js'
import { NativeFiles } from './files/files.js'
import { Forks } from './forks.js'
import type { History } from './history.js'
import { NativeJobs } from './jobs.js'
import type { StartDefaults } from './plan/defaults.js'
import { planExec, planStream } from './plan/exec.js'
import { fromHome } from './plan/isolation.js'
import { planSession, type SandboxPlan, type SessionBase } from './plan/sandbox.js'
import { connect, listPorts, streamOf } from './ports.js'
import type { LocalProcess } from './processes/process.js'
import { Processes } from './processes/processes.js'
import { type FunctionEvent, questionOf, RuleFunctions } from './rule-functions.js'
import { runningCommand } from './running.js'
import { KnownSecrets } from './secrets.js'
import { tracedExec } from './traced-exec.js'
import { TracedRequests } from './traced-requests.js'
import { NativeWorkspace } from './workspace.js'

/** What a fork begins with in this process. */
interface Beginning {
  history: History
  announced: { names: string[]; values: string[] }
  functions: RuleFunctions
  secrets: KnownSecrets
  name: string
  above: Forks<NativeBackend>
}

/** Makes the public object of a backend with these options. */
type Show = (backend: NativeBackend, plan: SandboxPlan) => api.Sandbox

export class NativeBackend implements Backend {
  readonly logger: api.Logger | undefined
  readonly jobs: NativeJobs
  readonly workspace: NativeWorkspace
  readonly checkpoints: NativeCheckpoints
  /** Its open forks. */
  readonly forks: Forks<NativeBackend>
  /** That of a fork. */
  readonly name: string | null
  readonly #engine: Engine
  readonly #processes: Processes
  readonly #defaults: StartDefaults
  readonly #base: SessionBase
  readonly #plan: SandboxPlan
  readonly #attachments = new Attachments((sessionId, port) => this.connectPort(sessionId, port))
  readonly #functions: RuleFunctions
  readonly #secrets: KnownSecrets
  readonly #requests = new TracedRequests()
  /** Variables set after the engine started. */
  #announced: { names: string[]; values: string[] } = { names: [], values: [] }

  /** Does no I/O: the first call starts everything. `show` makes the object of a fork. `from`: what a fork begins with. */
  constructor(plan: SandboxPlan, show?: Show, from?: Beginning) {
    const { config, defaults, logger, homes } = plan
    this.logger = logger
    this.#plan = plan
    this.forks = new Forks(from?.above)
    this.name = from?.name ?? null
    this.#functions = from?.functions ?? new RuleFunctions(logger)
    this.#functions.add(plan.rules)
    this.#secrets = from?.secrets ?? new KnownSecrets(config.isolation?.secrets)
    this.#engine = new Engine(config, logger, from?.history, NativeBackend.#observer(new WeakRef(this)))
    this.#announced = from?.announced ?? this.#announced
    this.#defaults = { ...defaults, secrets: this.#secrets }
    this.#processes = new Processes(this.#engine, this.#defaults, logger)
    const env = { names: config.envNames, values: config.envValues }
    this.#base = { cwd: config.cwd, homes, isolation: config.isolation, env }
    this.workspace = new NativeWorkspace(this.#engine, config)
    const { revivals } = this.#processes
    this.checkpoints = new NativeCheckpoints(this.#engine, revivals, (...named) =>
      this.#branch(show, ...named),
    )
    this.#engine.onDestroy(() => this.#attachments.endAll())
    this.jobs = new NativeJobs(this.#engine, { cwd: config.cwd, graceMs: defaults.forceKillAfterDelay })
  }

  exec(request: ExecRequest, observer: RunObserver | undefined): Promise<Result> {
    this.#attachments.holds.require(request.sessionId, request.hold)
    const plan = planExec(request, this.#defaults)
    return exec(this.#engine, plan, observer, this.#adopt(request))
  }

  stream(request: ExecRequest, observer: RunObserver): StreamRun {
    const check = () => this.#attachments.holds.require(request.sessionId, request.hold)
    const plan = planStream(request, this.#defaults)
    return stream(this.#engine, plan, observer, this.#adopt(request), check)
  }

  traced(request: ExecRequest, perform: (request: ExecRequest) => Promise<Result>): Promise<Result> {
    return tracedExec(request, perform, undefined, this.#requests)
  }

  async startProcess(request: ProcessRequest): Promise<LocalProcess> {
    this.#attachments.holds.require(request.sessionId, request.hold)
    return this.#processes.start(request)
  }

  async startService(request: ServiceRequest): Promise<ServiceBackend> {
    this.#attachments.holds.require(request.process.sessionId, request.process.hold)
    return this.#processes.startService(request)
  }

  /** Forgets an ended process and its log. Throws SANDBOX_DESTROYED. */
  forgetProcess(id: string): void {
    this.#engine.ask((native) => native.forgetProcesses([id]))
  }

  async listProcesses(filter: ProcessFilter): Promise<ProcessBackend[]> {
    return this.#processes.list(filter)
  }

  async findProcess(id: string): Promise<ProcessBackend | null> {
    return this.#processes.find(id) ?? null
  }

  process(id: string): ProcessBackend {
    return this.#processes.at(id)
  }

  async killAllProcesses(): Promise<number> {
    return this.#processes.killAll()
  }

  async cleanUpProcesses(): Promise<number> {
    return this.#processes.cleanUp()
  }

  async setEnv(sessionId: string, vars: EnvLists, hold: string | undefined): Promise<void> {
    this.#attachments.holds.require(sessionId, hold)
    await this.#setEnv(sessionId, vars)
  }

  async #setEnv(sessionId: string, env: EnvLists): Promise<void> {
    const { names, values } = this.#secrets.coverEnv(env)
    await this.#engine.call((native, id) => native.setEnv(id, sessionId, names, values))
  }

  async createSession(values: OptionValues<typeof sessionOptions>): Promise<string> {
    const session = planSession(values, this.#base, () => crypto().randomUUID())
    if (session.sessionId === DEFAULT_SESSION)
      throw engineError(
        'SESSION_ALREADY_EXISTS',
        `the session '${DEFAULT_SESSION}' always exists; choose another id`,
      )
    this.#functions.add(values.isolation)
    this.#secrets.add(session.isolation?.secrets)
    const { names, values: given } = this.#announced
    session.envNames = [...names, ...(session.envNames ?? [])]
    session.envValues = [...given, ...(session.envValues ?? [])]
    await this.#engine.call((native, id) => native.createSession(id, session))
    return session.sessionId
  }

  /** Sets variables in all current and future sessions. A session that is running a command receives them after it. */
  announce(vars: { names: string[]; values: string[] }): void {
    if (this.#engine.extendEnv(vars)) return
    this.#announced = vars
    for (const id of this.#engine.sessions())
      this.#setEnv(id, vars).catch((error) =>
        this.logger?.warn(`session '${id}' has no ${vars.names}: ${error}`),
      )
  }

  /** The environment that sessions start from. */
  env(): Record<string, string> {
    return this.#engine.env()
  }

  get isDestroyed(): boolean {
    return this.#engine.isDestroyed
  }

  /** See {@link Engine.onDestroy}. */
  onDestroy(listener: () => void): () => void {
    return this.#engine.onDestroy(listener)
  }

  async hasSession(id: string): Promise<boolean> {
    return this.#sessionIds().has(id)
  }

  async listSessions(): Promise<string[]> {
    return [...this.#sessionIds()]
  }

  async deleteSession(id: string): Promise<void> {
    this.#engine.history.forget(id)
    this.#attachments.beginEnd(id)
    // The default session exists even before its shell has started.
    if (id === DEFAULT_SESSION && !this.#engine.sessions().includes(id)) return
    await this.#engine.call((native, call) => native.deleteSession(call, id))
  }

  async history({ sessionId, limit }: { sessionId: string; limit: number }): Promise<api.HistoryEntry[]> {
    this.#requireSession(sessionId)
    return this.#engine.history.of(sessionId, limit)
  }

  async running({ sessionId }: { sessionId: string }): Promise<api.RunningCommand[]> {
    const running = await this.#engine.call((native, id) => native.running(id, sessionId))
    const heldBy = this.#attachments.holds.owner(sessionId)
    return running.map((command) => runningCommand(command, heldBy))
  }

  async sessionStats({ sessionId }: { sessionId: string }): Promise<api.SessionStats> {
    const { sessions: _, ...stats } = await this.#stats(sessionId)
    return stats
  }

  async denials({ sessionId }: { sessionId: string }): Promise<api.Denial[]> {
    this.#requireSession(sessionId)
    // The default session is there before anything has run in it.
    if (!this.#engine.sessions().includes(sessionId)) return []
    const refused = await this.#engine.call((native, id) => native.denials(id, sessionId))
    return refused.map(denialOf)
  }

  async why(plan: {
    sessionId: string
    target: string
    program?: string | undefined
  }): Promise<api.Denial[]> {
    const { sessionId, target, program = null } = plan
    const host = hostIn(target) ?? null
    const { cwd, homes } = this.#base
    const path = host === null ? resolveFrom(cwd, fromHome(target, homes()[0] ?? '/')) : null
    const found = await this.#engine.call((native, id) => native.judge(id, sessionId, path, host, program))
    return found.map(denialOf)
  }

  stats(): Promise<api.SandboxStats> {
    return this.#stats(null)
  }

  /** Of one session, or of all. */
  async #stats(sessionId: string | null): Promise<api.SandboxStats> {
    const stats = await this.#engine.call((native, id) => native.stats(id, sessionId))
    return { openFiles: 0, terminals: 0, sessions: 0, ...stats }
  }

  /** The secrets of its sessions. */
  get hidden(): Hidden {
    return this.#secrets
  }

  async questions(): Promise<api.Question[]> {
    return (this.#engine.ask((native) => native.questions()) ?? []).map(questionOf)
  }

  async answer({ questionId, answer }: { questionId: string; answer: api.Answer }): Promise<boolean> {
    return this.#engine.ask((native) => native.answerQuestion(questionId, answer)) ?? false
  }

  /** For the addon. Functions made in the constructor would hold the backend, and so keep it from being collected. */
  static #observer(weak: WeakRef<NativeBackend>): Observer {
    return {
      question(question) {
        const backend = weak.deref()
        if (backend !== undefined) void backend.#decide(question)
      },
      called(sessionId, socket) {
        const connection = streamOf(socket)
        const backend = weak.deref()
        if (backend === undefined) connection.destroy()
        else backend.#serve(connection, sessionId)
      },
      function(event) {
        const connection = streamOf(event.socket)
        const backend = weak.deref()
        if (backend === undefined) connection.destroy()
        else backend.#apply(event, connection)
      },
      request(event) {
        const backend = weak.deref()
        if (backend !== undefined) backend.#requests.receive(event)
      },
      ended(sessionId) {
        const backend = weak.deref()
        // Another default session may have begun meanwhile.
        if (backend !== undefined && !backend.#isAlive(sessionId)) backend.#attachments.end(sessionId)
      },
    }
  }

  /** Answers a question by the function of its session, if that has one. */
  async #decide(question: NativeQuestion): Promise<void> {
    const answer = await this.#functions.answer(question)
    if (answer !== undefined) this.#engine.release((native) => native.answerQuestion(question.id, answer))
  }

  /** Lets a function of rules answer a request, or tell a value. */
  #apply(event: FunctionEvent, connection: Duplex): void {
    this.#attachments.add(connection, event.sessionId)
    const open = () => {
      const sending = streamOf(this.#engine.start().forwardRequest(event.request))
      this.#attachments.add(sending, event.sessionId)
      return sending
    }
    void this.#functions.serve(event, connection, open, this.#secrets)
  }

  /** Serves a call of a host command. */
  #serve(connection: Duplex, sessionId: string): void {
    const engine = this.#engine
    this.#attachments.add(connection, sessionId)
    connection.once('close', () => engine.release((native) => native.callEnded(sessionId)))
    // A caller can have given its end of the connection to a program outside of the session.
    if (engine.isDestroyed || !engine.sessions().includes(sessionId)) connection.destroy()
    else void serveCall(connection, this.#plan.commands, sessionId)
  }

  ports(): Promise<api.OpenPort[]> {
    return listPorts(this.#engine, null)
  }

  sessionPorts({ sessionId }: { sessionId: string }): Promise<api.OpenPort[]> {
    return listPorts(this.#engine, sessionId)
  }

  /** Connects to a port of a session, or of the first that listens on it. */
  async connectPort(sessionId: string | undefined, port: number): Promise<Duplex> {
    const connection = await connect(this.#engine, sessionId, port)
    if (this.#engine.isDestroyed) {
      connection.destroy()
      throw engineError('SANDBOX_DESTROYED', undefined)
    }
    this.#attachments.add(connection)
    return connection
  }

  /** Whether a session has a network namespace of its own; without an id, whether new sessions have. */
  async isApart(sessionId: string | undefined): Promise<boolean> {
    const isRestricted = this.#engine.start().restrictsNetwork(sessionId)
    return isRestricted && (await this.capabilities()).isolation.network === 'namespace'
  }

  /** Listens on a port of this machine that leads to one of a session, until that ends, or of the sandbox. */
  async forward(port: number, { local, sessionId }: api.SandboxForwardOptions): Promise<api.Forwarding> {
    // Otherwise, the listener could take the port of a program that has not begun to listen.
    const isApart = await this.isApart(sessionId)
    // It may end from here on, and the forward with it.
    if (sessionId !== undefined) this.#requireShell(sessionId)
    if (this.#engine.isDestroyed) throw engineError('SANDBOX_DESTROYED', undefined)
    return this.#attachments.forward(sessionId, port, { local, isApart })
  }

  async killCommand(plan: CommandKill & { sessionId: string; commandId: string }): Promise<boolean> {
    const { sessionId, commandId, signal, reason } = plan
    this.#requireSession(sessionId)
    const number = Number(commandId)
    if (String(number) !== commandId || !(number < 2 ** 32)) return false
    const by: NativeKilledBy = { by: 'caller', reason }
    return await this.#engine.call((native, call) =>
      native.killCommand(call, sessionId, number, signal ?? null, by),
    )
  }

  async hold(sessionId: string, owner: string): Promise<HoldBackend> {
    this.#requireShell(sessionId)
    return this.#attachments.holds.of(sessionId).take(owner)
  }

  files(sessionId: string): NativeFiles {
    return new NativeFiles(this.#engine, sessionId)
  }

  /** Files whose paths start at a root and cannot leave it. */
  filesBelow(sessionId: string, root: string): FilesBackend {
    return new NativeFiles(this.#engine, sessionId, root)
  }

  events(plan: EventPlan): NativeEvents {
    return new NativeEvents(this.#engine, plan)
  }

  async capabilities(): Promise<api.Capabilities> {
    return await this.#engine.call((native, id) => native.capabilities(id))
  }

  destroy(): Promise<void> {
    this.jobs.letGo()
    return this.#engine.destroy()
  }

  /** Writes the sandbox to a file, and ends it. */
  async suspend(
    place: string,
    { busy, signal }: CompleteValues<typeof suspendOptions>,
  ): Promise<api.Suspended> {
    const suspended = await abortable(this.#engine, 'the suspension', signal, (native, id) =>
      native.suspend(id, place, busy === 'reject'),
    )
    await this.destroy()
    return suspended
  }

  /** The directory for archives that a server writes and reads. */
  archives(): Promise<string> {
    return this.#engine.call((native, id) => native.archives(id))
  }

  /** Goes on with an archive, before anything else is called. */
  async resume(
    place: string,
    { onDifference, maxBytes }: CompleteValues<typeof archiveOptions>,
  ): Promise<Omit<api.Resumed, 'sandbox'>> {
    return await this.#engine.call((native, id) =>
      native.resume(id, place, onDifference === 'reject', maxBytes),
    )
  }

  /** A sandbox with the same options, except that it is not kept, and its workspace has no name. */
  #branch(show: Show | undefined, wanted: string, isNumbered: boolean): Branch {
    if (show === undefined) throw engineError('WORKSPACE_NOT_ENABLED', undefined)
    // A fork must not hold this sandbox.
    const { forks } = this
    if (!isNumbered) forks.requireFree(wanted)
    const name = isNumbered ? forks.nextName(wanted) : wanted
    const { config } = this.#plan
    const plan = {
      ...this.#plan,
      config: {
        ...config,
        keep: undefined,
        envNames: [...config.envNames],
        envValues: [...config.envValues],
        workspace: config.workspace && { ...config.workspace, id: undefined },
      },
    }
    const from = {
      history: this.#engine.history.copy(),
      announced: this.#announced,
      functions: this.#functions.copy(),
      secrets: this.#secrets.copy(),
      ...{ name, above: forks },
    }
    const backend = new NativeBackend(plan, show, from)
    forks.add(name, backend)
    backend.onDestroy(() => forks.delete(name))
    return { sandbox: show(backend, plan), engine: backend.#engine, open: () => forks.open(name) }
  }

  /** Keeps the process that the command of a request becomes. */
  #adopt({ values: { input, pty } }: ExecRequest): (process: NativeProcess) => LocalProcess {
    return (process) => this.#processes.adopt(process, { input: input === 'pipe' ? 'open' : 'none', pty })
  }

  #requireSession(id: string): void {
    if (!this.#sessionIds().has(id)) throw unknownId('session', id)
  }

  /** Whether the engine has this session, and anything can run in it. */
  #isAlive(id: string): boolean {
    const isThere = (native: NativeSandbox) => native.sessions().includes(id) && native.exitOf(id) === null
    return !this.#engine.isDestroyed && this.#engine.ask(isThere) === true
  }

  /** Also throws SESSION_TERMINATED, once nothing can run in the session any more. */
  #requireShell(id: string): void {
    this.#requireSession(id)
    const exit = this.#engine.ask((native) => native.exitOf(id))
    if (typeof exit === 'string') throw engineError('SESSION_TERMINATED', exit)
  }

  /** Includes the default session, which exists before the engine starts it. */
  #sessionIds(): Set<string> {
    return new Set([DEFAULT_SESSION, ...this.#engine.sessions()])
  }
}
