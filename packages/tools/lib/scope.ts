/** Sessions and what runs in them. */
import type { AnySandbox } from 'nacre'
import { crypto, isCode } from 'nacre/internal'
import type { Options } from './options.js'
import type { Style } from './reply.js'
import { LOG_LIMIT, type NamedSession, Run, type RunPlan, wanted } from './run.js'
import { ToolError } from './schema.js'
import type { Service } from './service.js'

/** The session of calls that name none. It opens by itself. */
const MAIN = 'main'
/** Bytes of the logs of all ended runs together. */
const MOST_LOG_BYTES = 8 * LOG_LIMIT

/** A session that calls may use. What replies call it is no handle, which is never shown again. */
export interface OpenSession extends NamedSession {
  /** Whether a tool has opened it, so that it ends with the tools. */
  isOwn: boolean
}

/**
 * What one caller may use: sessions, runs and services. Without `requireSession`, there is one scope with all sessions.
 * Otherwise, each handle has a scope with one session.
 */
export class Scope {
  readonly sessions = new Map<string, Promise<OpenSession>>()
  readonly runs = new Map<string, Run>()
  readonly services = new Map<string, Service>()
  readonly jobs = new Set<string>()
  lastRun: Run | undefined
  /** The number of the last run. */
  count: number

  constructor(count: number) {
    this.count = count
  }

  /** Sessions that a rollback has ended. The next call opens `main` again. */
  forget(sessions: readonly string[]): void {
    for (const name of sessions) this.sessions.delete(name)
  }

  nextId(): string {
    this.count++
    return `r${this.count}`
  }
}

/** The state of one `createTools`. */
export class Host {
  readonly sandbox: AnySandbox
  readonly options: Options
  readonly style: Style
  isClosed = false
  readonly #shared: Scope
  /** Runs have later numbers. */
  readonly #firstCount: number
  /** The highest number of a run. */
  highest: number
  /** By a digest, so that the time of a lookup says nothing about a handle. */
  readonly #handles = new Map<string, Scope>()
  /** The oldest first. */
  readonly #ended = new Map<Run, Scope>()
  #running = 0

  /** `count`: the highest number of a run in an earlier sandbox. Its id must name no other run. */
  constructor(sandbox: AnySandbox, options: Options, style: Style, count = 0) {
    this.sandbox = sandbox
    this.options = options
    this.style = style
    this.#firstCount = count
    this.highest = count
    this.#shared = new Scope(count)
  }

  get scopes(): Scope[] {
    return [this.#shared, ...this.#handles.values()]
  }

  /** The scope of a call with this session. */
  scopeOf(session: string | undefined): Scope {
    if (!this.options.requireSession) return this.#shared
    const scope = session === undefined ? undefined : this.#handles.get(digest(session))
    if (scope !== undefined) return scope
    throw lostHandle()
  }

  /** A session that is open, or one that opens by itself. */
  async session(scope: Scope, id: string | undefined): Promise<OpenSession> {
    if (this.options.requireSession) {
      for (const session of scope.sessions.values()) return session
      throw lostHandle()
    }
    const name = id ?? MAIN
    let session = scope.sessions.get(name)
    if (session === undefined) {
      this.#requireRoom()
      session = this.#find(scope, name)
      this.#remember(scope, name, session)
    }
    return session
  }

  /** Opens a session. Resolves with what callers give as `session`. */
  async open(name: string, cwd: string | undefined): Promise<{ handle: string; open: OpenSession }> {
    const isShared = !this.options.requireSession
    const scope = isShared ? this.#shared : new Scope(this.#firstCount)
    if (scope.sessions.has(name))
      throw new ToolError(`There is a session "${name}" already.`, 'SESSION_ALREADY_EXISTS')
    this.#requireRoom()
    const handle = isShared ? name : `s-${crypto().randomBytes(16).toString('base64url')}`
    // The engine's id of a session is no secret, so it differs from the handle.
    const opening = this.#create(name, isShared ? name : undefined, cwd)
    if (!isShared) this.#handles.set(digest(handle), scope)
    this.#remember(scope, name, opening)
    try {
      return { handle, open: await opening }
    } catch (error) {
      if (!isShared) this.#handles.delete(digest(handle))
      throw error
    }
  }

  /** Ends a session with everything in it. */
  async end(id: string): Promise<void> {
    const scope = this.scopeOf(id)
    const name = this.options.requireSession ? [...scope.sessions.keys()][0] : id
    const opening = name === undefined ? undefined : scope.sessions.get(name)
    if (name === undefined || opening === undefined) throw unknownSession(scope, id)
    scope.sessions.delete(name)
    this.#handles.delete(digest(id))
    await this.sandbox.deleteSession((await opening).session.id)
  }

  /** Starts a run. Its output stays until it is one of too many ended ones. */
  async start(
    scope: Scope,
    session: string | undefined,
    plan: RunPlan,
    pty: boolean,
    yieldAfter: number,
  ): Promise<Run> {
    const { maxRuns } = this.options
    if (this.#running >= maxRuns)
      throw new ToolError(`${maxRuns} commands run already. Wait for one, or kill one.`, 'TOO_MANY_RUNS')
    this.#running++
    let open: OpenSession | undefined
    try {
      open = await this.session(scope, session)
      const run = pty
        ? await Run.inTerminal(scope.nextId(), open, plan, yieldAfter)
        : Run.inSession(scope.nextId(), open, plan, yieldAfter)
      this.highest = Math.max(this.highest, scope.count)
      scope.runs.set(run.id, run)
      scope.lastRun = run
      const { name } = open
      run.ended
        .catch((error) => this.#forgetLostSession(scope, name, error))
        .then(() => this.#retire(run, scope))
      if (this.isClosed) await run.kill('close')
      return run
    } catch (error) {
      this.#running--
      if (open !== undefined) this.#forgetLostSession(scope, open.name, error)
      throw error
    }
  }

  /** The hosts that the session of a run waits to be allowed to connect to. */
  async asked({ sessionId }: Run): Promise<string[]> {
    // The reply is worth more than this field.
    const questions = await this.sandbox.questions().catch(() => [])
    return questions.filter((question) => question.sessionId === sessionId).map(wanted)
  }

  /** Kills what runs, and ends the sessions that the tools have opened, unless they stay. Rejects when one cannot be ended. */
  async close(): Promise<void> {
    this.isClosed = true
    const scopes = this.scopes
    await Promise.all(
      scopes.flatMap(({ runs, services }) => [
        ...[...runs.values()].filter(({ isOver }) => !isOver).map((run) => run.kill('close').catch(() => {})),
        ...[...services.values()].map((service) => service.kill().catch(() => {})),
      ]),
    )
    const sessions = await Promise.allSettled(scopes.flatMap((scope) => [...scope.sessions.values()]))
    const own = sessions.flatMap((result) =>
      result.status === 'fulfilled' && result.value.isOwn && !this.options.keepSessions ? [result.value] : [],
    )
    const ends = await Promise.allSettled(
      own.map(({ session }) => this.sandbox.deleteSession(session.id).catch(ignoreGone)),
    )
    for (const { runs } of scopes) for (const run of runs.values()) run.close()
    for (const end of ends) if (end.status === 'rejected') throw end.reason
  }

  #requireRoom(): void {
    const { maxSessions } = this.options
    const open = this.scopes.reduce((sum, { sessions }) => sum + sessions.size, 0)
    if (open >= maxSessions)
      throw new ToolError(`${maxSessions} sessions are open already. End one.`, 'TOO_MANY_SESSIONS')
  }

  async #find(scope: Scope, name: string): Promise<OpenSession> {
    // An application may have opened it for the model.
    const session = await this.sandbox.getSession(name)
    if (session !== null) return { session, name, isOwn: false }
    if (name !== MAIN) throw unknownSession(scope, name)
    return this.#create(name, name, undefined)
  }

  async #create(name: string, id: string | undefined, cwd: string | undefined): Promise<OpenSession> {
    const session = await this.sandbox.createSession({
      ...(id === undefined ? {} : { id }),
      ...(cwd === undefined ? {} : { cwd }),
      // A pager would wait for keys.
      env: { PAGER: 'cat', GIT_PAGER: 'cat' },
    })
    return { session, name, isOwn: true }
  }

  #remember(scope: Scope, name: string, opening: Promise<OpenSession>): void {
    scope.sessions.set(name, opening)
    opening.catch(() => {
      if (scope.sessions.get(name) === opening) scope.sessions.delete(name)
    })
  }

  /** Others may have ended the session. The next call opens it again, or says that there is none. */
  #forgetLostSession(scope: Scope, name: string, error: unknown): void {
    if (!isCode(error, 'SESSION_NOT_FOUND', 'SESSION_TERMINATED')) return
    scope.sessions.delete(name)
    for (const [key, known] of this.#handles) if (known === scope) this.#handles.delete(key)
  }

  #retire(run: Run, scope: Scope): void {
    this.#running--
    this.#ended.set(run, scope)
    let bytes = 0
    for (const { bytes: own } of this.#ended.keys()) bytes += Math.min(own, LOG_LIMIT)
    for (const [oldest, owner] of this.#ended) {
      if (this.#ended.size <= this.options.keepRuns && bytes <= MOST_LOG_BYTES) break
      bytes -= Math.min(oldest.bytes, LOG_LIMIT)
      this.#ended.delete(oldest)
      owner.runs.delete(oldest.id)
      oldest.close()
    }
  }
}

function unknownSession({ sessions }: Scope, name: string): ToolError {
  const names = [...sessions.keys()].filter((known) => known !== name)
  const known = names.length === 0 ? 'None is open.' : `Sessions: ${names.join(', ')}.`
  return new ToolError(`There is no session "${name}". ${known}`, 'SESSION_NOT_FOUND')
}

/** An unknown handle looks like one that has ended. */
export function lostHandle(): ToolError {
  return new ToolError(
    'There is no such session. Open one with sessions {"open":"name"}.',
    'SESSION_NOT_FOUND',
  )
}

function digest(handle: string): string {
  return crypto().createHash('sha256').update(handle).digest('base64')
}

function ignoreGone(error: unknown): void {
  if (!isCode(error, 'SESSION_NOT_FOUND', 'SANDBOX_DESTROYED')) throw error
}
