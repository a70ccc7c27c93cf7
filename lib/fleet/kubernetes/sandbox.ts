/**
 * One sandbox on Kubernetes: a claim, the pod that it was given first, and the client that talks to that pod only.
 */
import { SandboxClient } from '../../backends/http/client.js'
import type { Route, Target } from '../../backends/http/route.js'
import { abortable } from '../../base/abort.js'
import { SandboxError } from '../../base/errors.js'
import type { FleetSandbox } from '../../public/fleet.js'
import type { LostSandbox } from '../../public/index.js'
import { FleetBackend } from '../backend.js'
import type { FleetPlan } from '../engine.js'
import { Lease } from '../lease.js'
import { openSocket } from '../socket.js'
import { type KubernetesApi, statusOf } from './api.js'
import {
  type Claim,
  conditionOf,
  expiryOf,
  extension,
  instanceOf,
  labelsOf,
  lossOf,
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
  /** The way to a pod, when its Sandbox has this uid. */
  target(pod: Pod, uid: string | undefined): Target
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
  #target: Promise<Target>
  #resolve: (target: Promise<Target>) => void = () => {}

  constructor(cluster: Cluster, claim: Claim) {
    this.id = claim.metadata.name
    this.#cluster = cluster
    this.#claim = claim
    this.#target = new Promise((resolve) => {
      this.#resolve = resolve
    })
    this.#target.catch(() => {})
    this.#lease = new Lease({
      ttl: this.#ttl,
      isActive: () => this.#backend.active > 0,
      extend: () => this.#extend(undefined),
      rest() {},
      failed: (error) => cluster.plan.logger?.warn(`sandbox ${this.id} could not be extended: ${error}`),
    })
    this.#backend = new FleetBackend(this.#route(), cluster.plan)
    this.client = new SandboxClient(this.#backend)
    this.#unfollow = cluster.watch.follow(this.id, (changed) => this.#receive(changed))
    this.#update(claim)
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

  /** Resolves when the sandbox can be used. `isNew`: its claim gets its whole time to live, and the server's instance. */
  async ready(stop: AbortSignal, isNew: boolean): Promise<void> {
    await abortable(this.#reachable(stop), stop)
    const instance = await abortable(this.#backend.connect(stop), stop)
    if (isNew || instanceOf(this.#claim) === undefined) await abortable(this.#extend(instance), stop)
    this.#check()
    this.#lease.begin()
  }

  /** The error when the sandbox is not ready in time. */
  notReady(): SandboxError {
    const claim = this.#cluster.watch.find(this.id) ?? this.#claim
    return new SandboxError(
      'SANDBOX_NOT_READY',
      `sandbox ${this.id} was not ready in time: ${conditionOf(claim)}`,
    )
  }

  async delete(): Promise<void> {
    await this.#cluster.api.delete(this.id, this.uid, undefined)
    await this.end(true)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.delete()
  }

  /** Ends the requests. `isDeleted`: the server ends, too. */
  async end(isDeleted: boolean): Promise<void> {
    this.#release()
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
      target: (stop) => abortable(this.#target, stop),
      used: () => this.#lease.used(),
      lost: () => this.#findLoss(),
      socket: openSocket,
    }
  }

  /** Resolves when there is a way to the pod. Rejects when the sandbox is lost before. */
  async #reachable(stop: AbortSignal): Promise<void> {
    await abortable(this.#target, stop)
    this.#check()
  }

  /** Throws SANDBOX_LOST. */
  #check(): void {
    if (this.#backend.lost !== undefined) throw this.#backend.lossError(this.#backend.lost.reason)
  }

  #receive(claim: Claim | undefined): void {
    // What the watch has may be older than what the API server has answered meanwhile: a loss is confirmed.
    if (claim === undefined || this.#update(claim) !== undefined) this.#confirm().catch(() => {})
  }

  async #confirm(): Promise<void> {
    const reason = await this.#findLoss()
    if (reason !== undefined) this.#lose(reason)
  }

  /** Takes over a state of the claim. Returns why it has lost its pod. */
  #update(claim: Claim): LostSandbox['reason'] | undefined {
    if (claim.metadata.uid !== this.uid) return 'deleted'
    this.#claim = claim
    if (this.#pod !== undefined) return lossOf(claim, this.#had(this.#pod), Date.now())
    const pod = readyPodOf(claim)
    if (pod === undefined || (this.#cluster.needsAddress && pod.ips.length === 0)) return undefined
    this.#pod = pod
    this.#resolve(this.#findTarget(pod))
    return undefined
  }

  #had(pod: Pod) {
    return { uid: this.uid, pod, expiresAt: expiryOf(this.#claim) }
  }

  async #findTarget(pod: Pod): Promise<Target> {
    return this.#cluster.target(pod, await this.#cluster.api.sandboxUid(pod.name, undefined))
  }

  /** Asks the API server whether the claim still has its pod. */
  async #findLoss(): Promise<LostSandbox['reason'] | undefined> {
    const had = this.#had(this.#pod ?? { name: '', ips: [] })
    const claim = await this.#cluster.api.get(this.id, undefined).catch(() => this.#claim)
    const reason = lossOf(claim, had, Date.now())
    // A claim that has no pod yet has lost none.
    return this.#pod === undefined && claim?.metadata.uid === this.uid ? undefined : reason
  }

  #lose(reason: LostSandbox['reason']): void {
    this.#backend.lose(reason)
    this.#release()
    const lost = Promise.reject(this.#backend.lossError(reason))
    lost.catch(() => {})
    this.#resolve(lost)
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
