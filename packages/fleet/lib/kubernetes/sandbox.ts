/**
 * One sandbox on Kubernetes: a claim, the pod that it was given first, and the client that talks to that pod only.
 */
import type { LostSandbox } from 'nacre'
import type { SandboxClient } from 'nacre/client'
import { aborts, engineError, SandboxError } from 'nacre/internal'
import { clientOf, type Route, type Socket, type Target } from 'nacre/internal/client'
import { WebSocket } from 'ws'
import { FleetBackend, type FleetPlan } from '../backend.js'
import { Lease } from '../lease.js'
import type { FleetSandbox } from '../public.js'
import { type KubernetesApi, refusalOf, statusOf, textOf } from './api.js'
import {
  type Claim,
  conditionOf,
  expiryOf,
  extension,
  hasStopped,
  instanceOf,
  labelsOf,
  lossReason,
  type Pod,
  readyPodOf,
  ttlOf,
} from './claim.js'
import type { ClaimWatch } from './claim-watch.js'

/** What the sandboxes of a fleet share. */
export interface Cluster {
  api: KubernetesApi
  watch: ClaimWatch
  plan: FleetPlan
  /** Finds the way to a pod. */
  target(pod: Pod): Promise<Target>
  /** Whether the way to a pod needs its address. */
  needsAddress: boolean
  /** Called when a sandbox is lost or deleted. */
  forget(sandbox: KubernetesSandbox): void
}

export class KubernetesSandbox implements FleetSandbox {
  readonly id: string
  readonly client: SandboxClient
  readonly #cluster: Cluster
  readonly #backend: FleetBackend
  readonly #lease: Lease
  readonly #unfollow: () => void
  #claim: Claim
  #pod: Pod | undefined
  /** Resolves when there is a pod. */
  readonly #bound: Promise<Pod>
  #resolve: (pod: Pod) => void = () => {}
  #refuse: (error: Error) => void = () => {}
  #target: Promise<Target> | undefined

  constructor(cluster: Cluster, claim: Claim) {
    this.id = claim.metadata.name
    this.#cluster = cluster
    this.#claim = claim
    this.#bound = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#refuse = reject
    })
    this.#bound.catch(() => {})
    this.#lease = new Lease({
      ttl: this.#ttl,
      isActive: () => this.#backend.active > 0,
      extend: () => this.#extend(undefined),
      failed: (error) => cluster.plan.logger?.warn(`sandbox ${this.id} could not be extended: ${error}`),
    })
    this.#backend = new FleetBackend(this.#route(), cluster.plan)
    this.client = clientOf(this.#backend)
    this.#unfollow = cluster.watch.follow(this.id, {
      changed: (changed) => this.#receive(changed),
      refused: (error) => this.#giveUp(error),
    })
    this.#receive(claim)
    // The watch may have been ahead of the reply with the claim.
    const seen = cluster.watch.find(this.id)
    if (seen?.metadata.uid === this.uid) this.#receive(seen)
  }

  get uid(): string | undefined {
    return this.#claim.metadata.uid
  }

  get labels(): Record<string, string> {
    return labelsOf(this.#claim)
  }

  get expiresAt(): Date {
    return new Date(expiryOf(this.#claim) ?? 8.64e15)
  }

  get lost(): LostSandbox | null {
    return this.#backend.lost ?? null
  }

  /** Whether its client takes calls. */
  get isUsable(): boolean {
    return this.lost === null && !this.#backend.isDestroyed
  }

  /** Resolves when the sandbox can be used. `isNew`: its claim gets its whole time to live, and the server's instance. */
  async ready(stop: AbortSignal, isNew: boolean): Promise<void> {
    await this.#findTarget(stop)
    this.#check()
    const instance = await aborts.abortable(this.#backend.connect(stop), stop)
    if (isNew || instanceOf(this.#claim) === undefined) await aborts.abortable(this.#extend(instance), stop)
    this.#check()
    this.#lease.begin()
  }

  /** The error when the sandbox is not ready in time. */
  notReady(): SandboxError {
    const claim = this.#cluster.watch.find(this.id) ?? this.#claim
    const { failure } = this.#cluster.watch
    const blind =
      failure === undefined ? '' : `; an attempt to watch the claims has failed: ${textOf(failure)}`
    return new SandboxError(
      'SANDBOX_NOT_READY',
      `sandbox ${this.id} was not ready in time: ${conditionOf(claim)}${blind}`,
    )
  }

  async destroy(): Promise<void> {
    await this.#cluster.api.delete(this.id, this.uid, undefined)
    await this.end(true)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.destroy()
  }

  /** Ends the requests. `isDeleted`: the server ends, too. */
  async end(isDeleted: boolean): Promise<void> {
    this.#release()
    this.#refuse(
      isDeleted
        ? this.#backend.lossError('deleted')
        : engineError('SANDBOX_DESTROYED', 'the fleet has been closed'),
    )
    await this.#backend.leave(isDeleted)
  }

  get #ttl(): number {
    return ttlOf(this.#claim) ?? this.#cluster.plan.ttl
  }

  #route(): Route {
    const sandbox = this
    return {
      name: this.id,
      isPinned: true,
      get instance() {
        return instanceOf(sandbox.#claim)
      },
      target: (stop) => this.#findTarget(stop),
      used: () => this.#lease.used(),
      lost: () => this.#findLoss(),
      socket: openSocket,
    }
  }

  /** Throws SANDBOX_LOST. */
  #check(): void {
    if (this.#backend.lost !== undefined) throw this.#backend.lossError(this.#backend.lost.reason)
  }

  #receive(claim: Claim | undefined): void {
    // What the watch has may be older than what the API server has answered meanwhile: a loss is confirmed.
    if (claim === undefined || this.#update(claim) !== undefined) this.#confirm().catch(() => {})
  }

  /** Without a watch, a pod would never be seen. A sandbox that has one goes on. */
  #giveUp(error: unknown): void {
    if (this.#pod !== undefined) return
    this.#release()
    this.#refuse(refusalOf(error) as Error)
  }

  async #confirm(): Promise<void> {
    const reason = await this.#findLoss()
    if (reason !== undefined) this.#lose(reason)
  }

  /** Takes over a state of the claim. Returns why it has lost its pod. */
  #update(claim: Claim): LostSandbox['reason'] | undefined {
    if (claim.metadata.uid !== this.uid) return 'deleted'
    this.#claim = claim
    if (this.#pod !== undefined) return lossReason(claim, this.#had(this.#pod), Date.now())
    const pod = readyPodOf(claim)
    if (pod === undefined || (this.#cluster.needsAddress && pod.ips.length === 0))
      return hasStopped(claim) ? 'stopped' : undefined
    this.#pod = pod
    this.#resolve(pod)
    return undefined
  }

  #had(pod: Pod) {
    return { uid: this.uid, pod, expiresAt: expiryOf(this.#claim) }
  }

  /** The way to the pod, once there is one. It is looked for at the first use, and again when that has failed. */
  async #findTarget(stop: AbortSignal): Promise<Target> {
    const pod = await aborts.abortable(this.#bound, stop)
    const target = this.#target ?? this.#cluster.target(pod)
    this.#target = target
    target.catch(() => {
      if (this.#target === target) this.#target = undefined
    })
    return aborts.abortable(target, stop)
  }

  /** Asks the API server whether the claim still has its pod. */
  async #findLoss(): Promise<LostSandbox['reason'] | undefined> {
    const had = this.#had(this.#pod ?? { name: '', ips: [] })
    const claim = await this.#cluster.api.get(this.id, undefined).catch(() => this.#claim)
    // A claim that has no pod yet has lost none.
    if (this.#pod === undefined && claim !== undefined && claim.metadata.uid === this.uid)
      return hasStopped(claim) ? 'stopped' : undefined
    return lossReason(claim, had, Date.now())
  }

  #lose(reason: LostSandbox['reason']): void {
    this.#backend.lose(reason)
    this.#release()
    this.#refuse(this.#backend.lossError(reason))
  }

  #release(): void {
    this.#lease.end()
    this.#unfollow()
    this.#cluster.forget(this)
  }

  /** Gives the claim its whole time to live from now on. A conflict is resolved by the newest version. */
  async #extend(instance: string | undefined): Promise<void> {
    if (this.#backend.lost !== undefined) return this.#release()
    const { uid } = this
    for (let claim: Claim | undefined = this.#claim; ; ) {
      if (claim === undefined || claim.metadata.uid !== uid) return this.#lose('deleted')
      const recorded = instanceOf(claim)
      if (instance !== undefined && recorded !== undefined && recorded !== instance)
        return this.#lose('replaced')
      try {
        const until = Date.now() + this.#ttl
        this.#update(await this.#cluster.api.patch(this.id, extension(claim, until, instance), undefined))
        return
      } catch (error) {
        const status = statusOf(error)
        if (status !== 409 && status !== 404) throw error
        claim = await this.#cluster.api.get(this.id, undefined)
      }
    }
  }
}

/** Begins to open a WebSocket to a terminal, with headers, which a router needs: not every runtime's own has them. */
function openSocket(url: string, headers: Record<string, string>): Socket {
  const socket = new WebSocket(url.replace(/^http/, 'ws'), ['nacre.terminal'], { headers })
  socket.binaryType = 'arraybuffer'
  return socket as unknown as Socket
}
