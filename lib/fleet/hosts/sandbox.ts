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

/** The last date that JavaScript knows. */
const LAST_DATE_MS = 8.64e15

export interface HostSandboxOptions {
  id: string
  /** The URL of the server. */
  url: string
  /** Milliseconds. */
  ttl: number
  labels: Record<string, string>
  plan: FleetPlan
  /** The fleet has created it. */
  isOwn: boolean
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
  readonly #plan: FleetPlan
  readonly #forget: (sandbox: HostSandbox) => void
  readonly ttl: number
  #isOwn: boolean
  #isExpiring = false
  #expiresAt = Number.POSITIVE_INFINITY

  constructor({ id, url, ttl, labels, plan, isOwn, forget }: HostSandboxOptions) {
    this.id = id
    this.url = url
    this.labels = labels
    this.#plan = plan
    this.#forget = forget
    this.ttl = ttl
    this.#isOwn = isOwn
    this.#lease = new Lease({
      ttl,
      isActive: () => this.#backend.active > 0,
      extend: async () => this.#extend(),
      rest: (idle) => {
        if (this.#isOwn && idle >= ttl)
          this.#expire().catch((error) => plan.logger?.warn(`sandbox ${id} was not deleted: ${error}`))
      },
      failed() {},
    })
    this.#backend = this.#connect()
    this.client = new SandboxClient(this.#backend)
    if (isOwn) this.#lease.begin()
  }

  /** Whether this object has created it. Others do not know how it is used, so they never end it. */
  get isOwn(): boolean {
    return this.#isOwn
  }

  get expiresAt(): Date {
    return new Date(Math.min(this.#expiresAt, LAST_DATE_MS))
  }

  get lost(): LostSandbox | null {
    return this.#backend.lost ?? null
  }

  /** Whether its client takes calls. */
  get isUsable(): boolean {
    return this.lost === null && !this.#backend.isDestroyed
  }

  /** Resolves when the sandbox can be used. `isNew`: its default session is created. Rejects with SANDBOX_LOST. */
  async begin(stop: AbortSignal, isNew: boolean): Promise<void> {
    await this.#backend.connect(stop)
    if (isNew) this.#isOwn = await this.#backend.createScope()
    else if (!(await this.#backend.hasSession(DEFAULT_SESSION))) {
      this.#lose('deleted')
      throw this.#backend.lossError('deleted')
    }
    this.#extend()
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

  #extend(): void {
    if (this.#isOwn) this.#expiresAt = Date.now() + this.ttl
  }

  /** When the host does not answer, it is tried again after another time to live. */
  async #expire(): Promise<void> {
    if (this.#isExpiring) return
    this.#isExpiring = true
    try {
      await this.#deleteSessions()
      this.#lose('expired')
    } finally {
      this.#isExpiring = false
    }
  }

  #lose(reason: LostSandbox['reason']): void {
    this.#lease.end()
    this.#backend.lose(reason)
    this.#forget(this)
  }

  async #deleteSessions(): Promise<void> {
    // The caller may have destroyed the client.
    const backend = this.#backend.isDestroyed ? this.#connect() : this.#backend
    try {
      for (const id of await backend.listSessions())
        await backend.deleteSession(id).catch((error: unknown) => {
          if (!isCode(error, 'SESSION_NOT_FOUND')) throw error
        })
    } catch (error) {
      // The sessions have ended with their server.
      if (!isCode(error, 'SANDBOX_LOST', 'SANDBOX_DESTROYED')) throw error
    } finally {
      if (backend !== this.#backend) await backend.leave()
    }
  }

  #connect(): ScopedBackend {
    return new ScopedBackend(this.#route(), this.#plan, `${PREFIX}${this.id}`)
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
