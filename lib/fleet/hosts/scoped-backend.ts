/**
 * A sandbox that is a group of sessions on a server that others use, too.
 *
 * Its sessions have names that begin with the sandbox's, which is itself the name of the default session. So shells, working
 * directories and variables are its own. The machine is not: files, the ids of processes, and durable jobs are those of the
 * server.
 */

import type { Route } from '../../backends/http/route.js'
import { isCode } from '../../base/errors.js'
import { ownOnly } from '../../base/own.js'
import type { EnvLists } from '../../options/env.js'
import type { OptionValues } from '../../options/option.js'
import type { sessionOptions } from '../../protocol/session-options.js'
import type { HistoryEntry } from '../../public/index.js'
import { DEFAULT_SESSION, type ExecRequest } from '../../requests/exec.js'
import type { ProcessFilter } from '../../requests/logs.js'
import type { ProcessRequest } from '../../requests/process.js'
import type { ServiceRequest } from '../../requests/service.js'
import type { Result, RunObserver, StreamRun } from '../../run/run.js'
import { AS_STARTED } from '../../run/start-process.js'
import type { FilesBackend, ProcessBackend, ServiceBackend } from '../../sandbox/backend.js'
import { FleetBackend } from '../backend.js'
import type { FleetPlan } from '../engine.js'

export class ScopedBackend extends FleetBackend {
  readonly #scope: string

  /** `scope`: the name of the default session. */
  constructor(route: Route, plan: FleetPlan, scope: string) {
    super(route, plan)
    this.#scope = scope
  }

  override exec(request: ExecRequest, observer: RunObserver | undefined): Promise<Result> {
    return super.exec(this.#scoped(request), observer)
  }

  override stream(request: ExecRequest, observer: RunObserver): StreamRun {
    return super.stream(this.#scoped(request), observer)
  }

  override startProcess(request: ProcessRequest, introduce: (process: ProcessBackend) => unknown) {
    return super.startProcess(this.#scoped(request), introduce)
  }

  override startService(request: ServiceRequest, introduce: (service: ServiceBackend) => unknown) {
    return super.startService({ ...request, process: this.#scoped(request.process) }, introduce)
  }

  override async listProcesses(filter: ProcessFilter): Promise<ProcessBackend[]> {
    const { sessionId } = filter
    const listed = await super.listProcesses({
      ...filter,
      ...(sessionId !== undefined && { sessionId: this.#name(sessionId) }),
    })
    return listed.filter(({ info }) => this.#isOurs(info.sessionId))
  }

  override async killAllProcesses(): Promise<number> {
    const running = await this.listProcesses({ status: new Set(['starting', 'running']) } as ProcessFilter)
    const killed = await Promise.all(running.map((process) => process.kill(AS_STARTED)))
    return killed.filter(Boolean).length
  }

  override setEnv(sessionId: string, env: EnvLists): Promise<void> {
    return super.setEnv(this.#name(sessionId), env)
  }

  override async createSession(values: OptionValues<typeof sessionOptions>): Promise<string> {
    const { id = crypto.randomUUID() } = values
    await super.createSession(ownOnly({ ...values, id: this.#name(id) }))
    return id
  }

  /** Creates the default session, which `destroy` leaves alone. False when it was there already. */
  async createScope(): Promise<boolean> {
    try {
      await super.createSession({ id: this.#scope })
    } catch (error) {
      if (!isCode(error, 'SESSION_ALREADY_EXISTS')) throw error
      return false
    }
    this.disown(this.#scope)
    return true
  }

  override hasSession(id: string): Promise<boolean> {
    return super.hasSession(this.#name(id))
  }

  override async listSessions(): Promise<string[]> {
    const names = (await super.listSessions()).filter((name) => this.#isOurs(name))
    return names.map((name) =>
      name === this.#scope ? DEFAULT_SESSION : name.slice(`${this.#scope}.`.length),
    )
  }

  override deleteSession(id: string): Promise<void> {
    return super.deleteSession(this.#name(id))
  }

  override history(sessionId: string, limit: number | undefined): Promise<HistoryEntry[]> {
    return super.history(this.#name(sessionId), limit)
  }

  override files(sessionId: string): FilesBackend {
    return super.files(this.#name(sessionId))
  }

  #scoped<T extends { sessionId: string }>(request: T): T {
    return { ...request, sessionId: this.#name(request.sessionId) }
  }

  #name(sessionId: string): string {
    return sessionId === DEFAULT_SESSION ? this.#scope : `${this.#scope}.${sessionId}`
  }

  #isOurs(name: string): boolean {
    return name === this.#scope || name.startsWith(`${this.#scope}.`)
  }
}
