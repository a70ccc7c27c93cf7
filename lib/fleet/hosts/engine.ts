/**
 * Sandboxes as sessions on a list of servers. A new one goes to the server with the fewest sessions.
 *
 * The servers keep no list of sandboxes: the names of their sessions are the list. Nothing but this object ends sandboxes
 * that are not used.
 */
import { randomUUID } from 'node:crypto'
import { abortable } from '../../base/abort.js'
import { AbortError, isCode, SandboxError } from '../../base/errors.js'
import { pause } from '../../base/waiting.js'
import { isSandboxId } from '../../options/fleet-values.js'
import type { FleetSandbox } from '../../public/fleet.js'
import { FleetBackend } from '../backend.js'
import type { CreateRequest, Engine, FleetPlan } from '../engine.js'
import { openSocket } from '../socket.js'
import { HostSandbox, PREFIX } from './sandbox.js'

/** Milliseconds for which a new sandbox waits for all hosts. Afterwards one is enough. */
const PATIENCE_MS = 2000

/** A creation that all calls with its id wait for. It ends when the last of them gives up. */
interface Creation {
  done: Promise<HostSandbox>
  calls: number
  stop: AbortController
}

/** A server, and how many of its sessions are being created. */
interface Host {
  url: string
  backend: FleetBackend
  pending: number
}

export class HostsEngine implements Engine {
  readonly #plan: FleetPlan
  readonly #hosts: Host[]
  readonly #sandboxes = new Map<string, HostSandbox>()
  readonly #creating = new Map<string, Creation>()
  readonly #created = new Set<HostSandbox>()

  constructor(urls: string[], plan: FleetPlan) {
    this.#plan = plan
    this.#hosts = urls.map((url) => ({ url, backend: hostBackend(url, plan), pending: 0 }))
  }

  async create(request: CreateRequest): Promise<FleetSandbox> {
    const { id = `nacre-${randomUUID().replaceAll('-', '').slice(0, 16)}`, timeout, signal } = request
    const limit = AbortSignal.timeout(timeout)
    const stop = signal === undefined ? limit : AbortSignal.any([signal, limit])
    try {
      return await this.#join(id, request, stop)
    } catch (error) {
      if (signal?.aborted) throw new AbortError(signal.reason, undefined, 'the creation of the sandbox')
      if (limit.aborted)
        throw new SandboxError('SANDBOX_NOT_READY', `sandbox ${id} was not ready in time`, { cause: error })
      throw error
    }
  }

  async get(id: string, signal: AbortSignal | undefined): Promise<FleetSandbox | null> {
    const stop = signal ?? new AbortController().signal
    const known = this.#known(id)
    const host = known === undefined ? await this.#find(id, stop) : undefined
    if (known === undefined && host === undefined) return null
    const sandbox = known ?? this.#adopt(id, host as Host)
    await abortable(sandbox.begin(stop, false), stop)
    return sandbox
  }

  async list(signal: AbortSignal | undefined): Promise<FleetSandbox[]> {
    const stop = signal ?? new AbortController().signal
    const lists = await abortable(
      Promise.all(this.#hosts.map(async (host) => ({ host, names: await host.backend.listSessions() }))),
      stop,
    )
    return lists.flatMap(({ host, names }) =>
      [...new Set(names.flatMap((name) => idOf(name) ?? []))].map(
        (id) => this.#known(id) ?? this.#adopt(id, host),
      ),
    )
  }

  async delete(id: string, signal: AbortSignal | undefined): Promise<void> {
    const stop = signal ?? new AbortController().signal
    const known = this.#known(id)
    const host = known === undefined ? await this.#find(id, stop) : undefined
    const sandbox = known ?? (host && this.#adopt(id, host))
    if (sandbox !== undefined) await abortable(sandbox.delete(), stop)
  }

  async close(): Promise<void> {
    await Promise.allSettled([...this.#creating.values()].map(({ done }) => done))
    const created = [...this.#created]
    const others = [...this.#sandboxes.values()].filter((sandbox) => !this.#created.has(sandbox))
    await Promise.allSettled([
      ...created.map((sandbox) => sandbox.delete()),
      ...others.map((sandbox) => sandbox.end()),
    ])
    await Promise.all(this.#hosts.map(({ backend }) => backend.leave()))
  }

  /** Waits for the creation of an id, and begins it if there is none. */
  async #join(id: string, request: CreateRequest, stop: AbortSignal): Promise<HostSandbox> {
    let creation = this.#creating.get(id)
    while (creation?.stop.signal.aborted) {
      await abortable(Promise.allSettled([creation.done]), stop)
      creation = this.#creating.get(id)
    }
    creation ??= this.#begin(id, request)
    creation.calls++
    try {
      return await abortable(creation.done, stop)
    } finally {
      if (--creation.calls === 0) creation.stop.abort()
    }
  }

  #begin(id: string, request: CreateRequest): Creation {
    const stop = new AbortController()
    const done = this.#create(id, request, stop.signal).finally(() => this.#creating.delete(id))
    const creation = { done, calls: 0, stop }
    this.#creating.set(id, creation)
    return creation
  }

  async #create(id: string, request: CreateRequest, stop: AbortSignal): Promise<HostSandbox> {
    const known = this.#known(id) ?? this.#adoptFound(id, await this.#findIfNamed(request, stop))
    try {
      await known?.begin(stop, false)
      if (known !== undefined) return known
    } catch (error) {
      // One that has been lost makes way.
      if (!isCode(error, 'SANDBOX_LOST')) throw error
    }
    const host = await this.#leastUsed(stop)
    host.pending++
    const sandbox = this.#adopt(id, host, request)
    const begun = sandbox.begin(stop, true)
    try {
      await abortable(begun, stop)
      if (sandbox.isOwn) this.#created.add(sandbox)
      return sandbox
    } catch (error) {
      // The session may be created although its reply has not arrived, or be created just now.
      await begun.catch(() => {})
      await sandbox.delete().catch(() => {})
      throw error
    } finally {
      host.pending--
    }
  }

  /** The sandbox of this object, unless it is lost. It has a new client when the caller has destroyed the last one. */
  #known(id: string): HostSandbox | undefined {
    const known = this.#sandboxes.get(id)
    if (known?.lost !== null) return undefined
    if (known.isUsable) return known
    const { url, ttl, labels, isOwn } = known
    const renewed = this.#adopt(id, { url }, { ttl, labels, isOwn })
    if (isOwn) this.#created.add(renewed)
    known.end().catch(() => {})
    return renewed
  }

  async #findIfNamed({ id }: CreateRequest, stop: AbortSignal): Promise<Host | undefined> {
    return id === undefined ? undefined : this.#find(id, stop)
  }

  #adoptFound(id: string, host: Host | undefined): HostSandbox | undefined {
    return host && this.#adopt(id, host)
  }

  #adopt(
    id: string,
    { url }: Pick<Host, 'url'>,
    { ttl, labels, isOwn = false }: Partial<CreateRequest> & { isOwn?: boolean } = {},
  ): HostSandbox {
    const sandbox = new HostSandbox({
      ...{ id, url, plan: this.#plan, ttl: ttl ?? this.#plan.ttl, labels: labels ?? {}, isOwn },
      forget: (gone) => {
        this.#created.delete(gone)
        if (this.#sandboxes.get(id) === gone) this.#sandboxes.delete(id)
      },
    })
    this.#sandboxes.set(id, sandbox)
    return sandbox
  }

  /** The host that has a sandbox. Rejects when a host that may have it cannot be reached. */
  async #find(id: string, stop: AbortSignal): Promise<Host | undefined> {
    const found = await abortable(
      Promise.all(
        this.#hosts.map(async (host) => ((await host.backend.hasSession(PREFIX + id)) ? host : undefined)),
      ),
      stop,
    )
    return found.find((host) => host !== undefined)
  }

  /** The host with the fewest sessions, among those that answer. */
  async #leastUsed(stop: AbortSignal): Promise<Host> {
    const answered: Array<{ host: Host; sessions: number }> = []
    const asked = this.#hosts.map(async (host) => {
      answered.push({ host, sessions: (await host.backend.listSessions()).length })
    })
    const all = Promise.allSettled(asked)
    const enough = new AbortController()
    // One that is silent does not hold up the others.
    const some = pause(PATIENCE_MS, enough.signal).then(() => Promise.any(asked).catch(() => all))
    await abortable(Promise.race([all, some]), stop).finally(() => enough.abort())
    const load = ({ host, sessions }: (typeof answered)[number]) => sessions + host.pending
    const [best] = answered.sort((one, other) => load(one) - load(other))
    if (best !== undefined) return best.host
    const cause = await asked[0]?.catch((error: unknown) => error)
    throw new SandboxError('CONNECTION_FAILED', 'no host can be reached', { cause })
  }
}

/** The id of the sandbox that a session belongs to; undefined for other sessions. */
function idOf(name: string): string | undefined {
  const id = name.startsWith(PREFIX) ? name.slice(PREFIX.length).split('.')[0] : undefined
  return id !== undefined && isSandboxId(id) ? id : undefined
}

function hostBackend(url: string, plan: FleetPlan): FleetBackend {
  const route = {
    ...{ name: url, isPinned: false, instance: undefined, socket: openSocket },
    target: () => ({ url, headers: {} }),
    used() {},
    lost: async () => undefined,
  }
  // A host that is down must not hold up the others.
  return new FleetBackend(route, { ...plan, reconnectTimeout: Math.min(plan.reconnectTimeout, 2000) })
}
