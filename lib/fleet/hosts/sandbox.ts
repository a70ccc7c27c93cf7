/** One sandbox on a host: its sessions, and the client that uses only these. */
import { SandboxClient } from '../../backends/http/client.js'
import type { Route } from '../../backends/http/route.js'
import { isCode } from '../../base/errors.js'
import type { FleetSandbox } from '../../public/fleet.js'
import type { LostSandbox } from '../../public/index.js'
import { DEFAULT_SESSION } from '../../requests/exec.js'
import type { FleetPlan } from '../engine.js'
import { Lease } from '../lease.js'
import { openSocket } from '../socket.js'
import { ScopedBackend } from './scoped-backend.js'

/** What the names of the sandboxes' sessions begin with. */
export const PREFIX = 'sandbox.'

export interface HostSandboxOptions {
  id: string
  /** The URL of the server. */
  url: string
  /** Milliseconds. */
  ttl: number
  labels: Record<string, string>
  plan: FleetPlan
  /** Called when it is lost or deleted. */
  forget: (sandbox: HostSandbox) => void
}

export class HostSandbox implements FleetSandbox {
  readonly id: string
  readonly url: string
  readonly labels: Record<string, string>
  readonly client: SandboxClient
  readonly #backend: ScopedBackend
  readonly #lease: Lease
  readonly #forget: (sandbox: HostSandbox) => void
  readonly #ttl: number
  #expiresAt: number

  constructor({ id, url, ttl, labels, plan, forget }: HostSandboxOptions) {
    this.id = id
    this.url = url
    this.labels = labels
    this.#forget = forget
    this.#ttl = ttl
    this.#expiresAt = Date.now() + ttl
    this.#lease = new Lease({
      ttl,
      isActive: () => this.#backend.active > 0,
      extend: async () => {
        this.#expiresAt = Date.now() + ttl
      },
      rest: (idle) => {
        if (idle >= ttl)
          this.#expire().catch((error) => plan.logger?.warn(`sandbox ${id} was not deleted: ${error}`))
      },
      failed() {},
    })
    this.#backend = new ScopedBackend(this.#route(), plan, `${PREFIX}${id}`)
    this.client = new SandboxClient(this.#backend)
  }

  get expiresAt(): Date {
    return new Date(this.#expiresAt)
  }

  get lost(): LostSandbox | null {
    return this.#backend.lost ?? null
  }

  /** Resolves when the sandbox can be used. `isNew`: its default session is created. Rejects with SANDBOX_LOST. */
  async begin(stop: AbortSignal, isNew: boolean): Promise<void> {
    await this.#backend.connect(stop)
    if (isNew) await this.#backend.createScope()
    else if (!(await this.#backend.hasSession(DEFAULT_SESSION))) {
      this.#lose('deleted')
      throw this.#backend.lossError('deleted')
    }
    this.#expiresAt = Date.now() + this.#ttl
    this.#lease.begin()
  }

  async delete(): Promise<void> {
    try {
      if (this.lost === null) await this.#deleteSessions()
    } finally {
      await this.end()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.delete()
  }

  /** Ends the requests. */
  async end(): Promise<void> {
    this.#lease.end()
    this.#forget(this)
    await this.#backend.leave()
  }

  async #expire(): Promise<void> {
    this.#lease.end()
    await this.#deleteSessions()
    this.#lose('expired')
  }

  #lose(reason: LostSandbox['reason']): void {
    this.#lease.end()
    this.#backend.lose(reason)
    this.#forget(this)
  }

  async #deleteSessions(): Promise<void> {
    try {
      for (const id of await this.#backend.listSessions()) await this.#delete(id)
    } catch (error) {
      // The sessions have ended with their server.
      if (!isCode(error, 'SANDBOX_LOST', 'SANDBOX_DESTROYED')) throw error
    }
  }

  async #delete(id: string): Promise<void> {
    try {
      await this.#backend.deleteSession(id)
    } catch (error) {
      if (!isCode(error, 'SESSION_NOT_FOUND')) throw error
    }
  }

  #route(): Route {
    const target = { url: this.url, headers: {} }
    return {
      name: this.id,
      isPinned: true,
      instance: undefined,
      target: () => target,
      used: () => this.#lease.used(),
      lost: async () => undefined,
      socket: openSocket,
    }
  }
}
