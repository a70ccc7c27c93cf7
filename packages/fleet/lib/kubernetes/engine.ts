/** Sandboxes as claims of agent-sandbox. */
import { randomUUID } from 'node:crypto'
import { AbortError, Backoff, isCode, OptionError, SandboxError } from 'nacre/internal'
import type { Target } from 'nacre/internal/client'
import type { FleetPlan } from '../backend.js'
import type { FleetSandbox, KubeConfigLike } from '../public.js'
import { KubernetesApi, refusalOf, statusOf } from './api.js'
import { type Claim, isEnding, isManaged, isOf, newClaim, type Pod } from './claim.js'
import { ClaimWatch } from './claim-watch.js'
import { Leftovers } from './leftovers.js'
import { type Cluster, KubernetesSandbox } from './sandbox.js'

export interface KubernetesPlan {
  namespace: string
  warmPool: string
  kubeConfig: KubeConfigLike | undefined
  router: { url: string; headers: Record<string, string> } | undefined
  port: number
}

/** What a caller wants. Arguments have been checked. */
export interface CreateRequest {
  id: string | undefined
  /** Milliseconds. */
  ttl: number
  labels: Record<string, string>
  /** Milliseconds. */
  timeout: number
  signal: AbortSignal | undefined
}

export class KubernetesEngine {
  readonly #plan: FleetPlan
  readonly #kubernetes: KubernetesPlan
  readonly #api: KubernetesApi
  readonly #watch: ClaimWatch
  readonly #cluster: Cluster
  readonly #leftovers: Leftovers
  readonly #sandboxes = new Map<string, KubernetesSandbox>()

  constructor(kubernetes: KubernetesPlan, plan: FleetPlan) {
    this.#plan = plan
    this.#kubernetes = kubernetes
    const { namespace, kubeConfig } = kubernetes
    this.#api = new KubernetesApi({ namespace, kubeConfig, timeout: plan.requestTimeout })
    this.#watch = new ClaimWatch(this.#api)
    this.#leftovers = new Leftovers(this.#api)
    this.#cluster = {
      ...{ api: this.#api, watch: this.#watch, plan, needsAddress: kubernetes.router === undefined },
      target: (pod) => this.#target(pod),
      forget: (sandbox) => {
        if (this.#sandboxes.get(sandbox.id) === sandbox) this.#sandboxes.delete(sandbox.id)
      },
    }
  }

  async create({ id = randomId(), ttl, labels, timeout, signal }: CreateRequest): Promise<FleetSandbox> {
    const { namespace, warmPool } = this.#kubernetes
    const limit = AbortSignal.timeout(timeout)
    const stop = signal === undefined ? limit : AbortSignal.any([signal, limit])
    for (;;) {
      const nonce = randomUUID()
      let sandbox: KubernetesSandbox | undefined
      // Until the claim is known to be another call's, it may be this one's.
      let mayBeOurs = true
      try {
        const request = { id, namespace, warmPool, labels, ttl, nonce }
        const claim = await this.#claim(() => newClaim(request, Date.now()), nonce, stop)
        mayBeOurs = isOf(claim, nonce)
        sandbox = this.#adopt(claim)
        await sandbox.ready(stop, mayBeOurs)
        return sandbox
      } catch (error) {
        if (mayBeOurs && (sandbox !== undefined || !isRefusal(error))) {
          await sandbox?.end(true)
          await this.#leftovers.remove(id, nonce)
        }
        if (signal?.aborted) throw new AbortError(signal.reason, undefined, 'the creation of the sandbox')
        if (limit.aborted) throw sandbox?.notReady() ?? timedOut(id, error)
        // What another call was creating has been deleted, and makes way.
        if (mayBeOurs || !isDeleted(error)) throw refusalOf(error)
      }
    }
  }

  async get(id: string, signal: AbortSignal | undefined): Promise<FleetSandbox | null> {
    const limit = AbortSignal.timeout(this.#plan.createTimeout)
    const stop = signal === undefined ? limit : AbortSignal.any([signal, limit])
    let sandbox: KubernetesSandbox | undefined
    try {
      const claim = await this.#api.get(id, stop)
      if (claim === undefined || !isManaged(claim) || isEnding(claim)) return null
      sandbox = this.#adopt(claim)
      await sandbox.ready(stop, false)
      return sandbox
    } catch (error) {
      if (signal?.aborted) throw new AbortError(signal.reason, undefined, 'the call')
      if (limit.aborted) throw sandbox?.notReady() ?? timedOut(id, error)
      throw refusalOf(error)
    }
  }

  async list(signal: AbortSignal | undefined): Promise<FleetSandbox[]> {
    const { items } = await refused(this.#api.list(signal))
    return items.filter((claim) => !isEnding(claim)).map((claim) => this.#adopt(claim))
  }

  async delete(id: string, signal: AbortSignal | undefined): Promise<void> {
    const claim = await refused(this.#api.get(id, signal))
    if (claim === undefined || !isManaged(claim)) return
    await refused(this.#api.delete(id, claim.metadata.uid, signal))
    const sandbox = this.#sandboxes.get(id)
    if (sandbox?.uid === claim.metadata.uid) await sandbox?.end(true)
  }

  async close(): Promise<void> {
    await Promise.all([...this.#sandboxes.values()].map((sandbox) => sandbox.end(false)))
    await this.#leftovers.close()
    await this.#watch.close()
  }

  /** Creates the claim, or finds the one that has its id. */
  async #claim(body: () => Claim, nonce: string, stop: AbortSignal): Promise<Claim> {
    const backoff = new Backoff(50, 2000)
    for (;;) {
      try {
        return await this.#api.create(body(), stop)
      } catch (error) {
        if (statusOf(error) !== 409) throw error
      }
      const { name } = body().metadata
      const found = await this.#api.get(name, stop)
      // One that is being deleted makes way.
      if (found !== undefined && !isEnding(found)) {
        if (!isOf(found, nonce)) this.#refuseForeign(found)
        return found
      }
      await backoff.wait(stop)
    }
  }

  #refuseForeign(claim: Claim): void {
    const { warmPool } = this.#kubernetes
    const { name } = claim.metadata
    if (!isManaged(claim))
      throw new SandboxError('REQUEST_REFUSED', `the claim ${name} exists, and no fleet has created it`)
    if (claim.spec.warmPoolRef.name !== warmPool)
      throw new SandboxError(
        'REQUEST_REFUSED',
        `the sandbox ${name} exists, and is of the warm pool ${claim.spec.warmPoolRef.name}`,
      )
  }

  #adopt(claim: Claim): KubernetesSandbox {
    const known = this.#sandboxes.get(claim.metadata.name)
    if (known?.uid === claim.metadata.uid && known?.lost === null) {
      if (known.isUsable) return known
      // The caller has destroyed its client, and gets another one.
      known.end(false).catch(() => {})
    }
    const sandbox = new KubernetesSandbox(this.#cluster, claim)
    if (sandbox.lost === null) this.#sandboxes.set(sandbox.id, sandbox)
    return sandbox
  }

  async #target({ name, ips: [ip = ''] }: Pod): Promise<Target> {
    const { namespace, router, port } = this.#kubernetes
    if (router === undefined)
      return { url: `http://${ip.includes(':') ? `[${ip}]` : ip}:${port}`, headers: {} }
    const uid = await this.#api.sandboxUid(name, undefined)
    return {
      url: router.url,
      headers: {
        ...router.headers,
        'x-sandbox-id': name,
        'x-sandbox-namespace': namespace,
        'x-sandbox-port': String(port),
        ...(uid !== undefined && { 'x-sandbox-uid': uid }),
      },
    }
  }
}

/** Ids are names of objects: they begin with a letter. */
function randomId(): string {
  return `nacre-${randomUUID().replaceAll('-', '').slice(0, 16)}`
}

/** Whether the API server has created nothing. */
function isRefusal(error: unknown): boolean {
  const status = statusOf(error)
  return error instanceof OptionError || (status !== undefined && status >= 400 && status < 500)
}

function isDeleted(error: unknown): boolean {
  return isCode(error, 'SANDBOX_LOST') && error.lost?.reason === 'deleted'
}

function timedOut(id: string, cause: unknown): SandboxError {
  return new SandboxError('SANDBOX_NOT_READY', `sandbox ${id} was not ready in time: ${cause}`, { cause })
}

async function refused<T>(request: Promise<T>): Promise<T> {
  try {
    return await request
  } catch (error) {
    throw refusalOf(error)
  }
}
