/** The controller of agent-sandbox, as a fleet sees it: warm pools, claims, Sandboxes, expiry, and pods that end. */
import type { ApiServer } from './api-server.js'
import type { Pod, PodMaker } from './pods.js'
import type { KubeObject, StoreEvent } from './store.js'

export const NAMESPACE = 'agents'
export const CLAIMS = `sandboxclaims/${NAMESPACE}/`
const SANDBOXES = `sandboxes/${NAMESPACE}/`

export class Controller {
  readonly #api: ApiServer
  readonly #pods: PodMaker
  readonly #poolSize: number
  readonly #pool: Pod[] = []
  /** The pods by the names of Sandboxes. */
  readonly running = new Map<string, Pod>()
  readonly #timers = new Map<string, NodeJS.Timeout>()
  readonly #work = new Set<Promise<unknown>>()
  readonly #ignore: () => void
  #names = 0
  #starting = 0
  #isClosed = false
  /** While this is set, claims stay unchanged. */
  isPaused = false

  constructor(api: ApiServer, pods: PodMaker, poolSize: number) {
    this.#api = api
    this.#pods = pods
    this.#poolSize = poolSize
    this.#ignore = api.store.listen((event) => this.#receive(event))
  }

  /** Resolves once the warm pool is full. */
  async fill(): Promise<void> {
    while (this.#pool.length + this.#starting < this.#poolSize) this.#replenish()
    while (this.#starting > 0) await Promise.all(this.#work)
  }

  /** The pod of a claim. */
  podOf(claim: string): Pod {
    const name = this.#api.store.get(CLAIMS + claim).status.sandbox.name
    const pod = this.running.get(name)
    if (pod === undefined) throw new Error(`${claim} has no pod`)
    return pod
  }

  /** The pod of a Sandbox, as the router finds it. */
  find(namespace: string, sandbox: string): Pod | undefined {
    return namespace === NAMESPACE ? this.running.get(sandbox) : undefined
  }

  /** Kills the pod of a claim, and reports its end. */
  async killPod(claim: string): Promise<void> {
    const pod = this.podOf(claim)
    const { name } = this.#api.store.get(CLAIMS + claim).status.sandbox
    this.running.delete(name)
    await pod.kill()
    this.#report(claim, undefined, 'PodFailed')
  }

  /** Replaces the pod of a claim by another at the same address, too quickly to be reported. */
  async replacePod(claim: string): Promise<Pod> {
    const pod = this.podOf(claim)
    const { name } = this.#api.store.get(CLAIMS + claim).status.sandbox
    await pod.kill()
    const next = await this.#pods.start(pod.network)
    this.running.set(name, next)
    return next
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#ignore()
    for (const timer of this.#timers.values()) clearTimeout(timer)
    while (this.#work.size > 0) await Promise.allSettled(this.#work)
    const pods = [...this.#pool, ...this.running.values()]
    await Promise.all(pods.map((pod) => pod.kill()))
    for (const pod of pods) pod.network.remove()
  }

  /** Binds waiting claims. */
  resume(): void {
    this.isPaused = false
    for (const claim of this.#api.store.list(CLAIMS)) if (claim.status === undefined) this.#bind(claim)
  }

  #receive({ key, type, object }: StoreEvent): void {
    if (!key.startsWith(CLAIMS)) return
    const { name } = object.metadata
    clearTimeout(this.#timers.get(name))
    if (type === 'DELETED') {
      this.#timers.delete(name)
      if (object.status?.sandbox) this.#track(this.#end(object.status.sandbox.name))
      return
    }
    this.#schedule(object)
    if (type === 'ADDED' && !this.isPaused) this.#bind(object)
  }

  /** Deletes the claim when it expires. */
  #schedule({ metadata: { name, uid }, spec: { lifecycle } }: KubeObject): void {
    const time = Date.parse(lifecycle?.shutdownTime)
    if (Number.isNaN(time)) return
    const expire = () => {
      const claim = this.#api.store.find(CLAIMS + name)
      if (claim?.metadata.uid !== uid) return
      // A timer may fire early.
      if (Date.parse(claim.spec.lifecycle.shutdownTime) > Date.now()) this.#schedule(claim)
      else this.#api.store.delete(CLAIMS + name)
    }
    this.#timers.set(name, setTimeout(expire, Math.max(0, time - Date.now())).unref())
  }

  #bind({ metadata: { name, uid } }: KubeObject): void {
    this.#track(
      (async () => {
        const pod = this.#pool.shift() ?? (await this.#pods.start())
        const claim = this.#api.store.find(CLAIMS + name)
        if (claim?.metadata.uid !== uid || this.#isClosed) {
          this.#pool.push(pod)
          return
        }
        const sandbox = `pool-${++this.#names}`
        this.#api.store.create(SANDBOXES + sandbox, { metadata: { name: sandbox, namespace: NAMESPACE } })
        this.running.set(sandbox, pod)
        this.#report(name, { name: sandbox, podIPs: [pod.ip] }, 'SandboxReady')
        this.#replenish()
      })(),
    )
  }

  #report(claim: string, sandbox: object | undefined, reason: string): void {
    const status = sandbox === undefined ? 'False' : 'True'
    const conditions = [{ type: 'Ready', status, reason, message: '' }]
    this.#api.store.patch(CLAIMS + claim, { status: { conditions, sandbox: sandbox ?? null } })
  }

  async #end(sandbox: string): Promise<void> {
    const pod = this.running.get(sandbox)
    this.running.delete(sandbox)
    if (this.#api.store.find(SANDBOXES + sandbox)) this.#api.store.delete(SANDBOXES + sandbox)
    await pod?.kill()
    pod?.network.remove()
  }

  #replenish(): void {
    if (this.#isClosed || this.#pool.length + this.#starting >= this.#poolSize) return
    this.#starting++
    this.#track(
      this.#pods
        .start()
        .then((pod) => this.#pool.push(pod))
        .finally(() => this.#starting--),
    )
  }

  #track(work: Promise<unknown>): void {
    const tracked: Promise<unknown> = work.catch(() => {}).finally(() => this.#work.delete(tracked))
    this.#work.add(tracked)
  }
}
