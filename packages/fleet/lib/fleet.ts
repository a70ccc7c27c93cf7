/** `SandboxFleet`: checks arguments, then calls Kubernetes. */
import { AbortError, kinds, OptionError, SandboxError } from 'nacre/internal'
import type { FleetPlan } from './backend.js'
import { sandboxId } from './kinds.js'
import { KubernetesEngine, type KubernetesPlan } from './kubernetes/engine.js'
import { fleetCallOptions, fleetCreateOptions, fleetKubernetesOptions, fleetOptions } from './options.js'
import type {
  FleetCallOptions,
  FleetCreateOptions,
  FleetOptions,
  FleetSandbox,
  SandboxFleet as PublicSandboxFleet,
} from './public.js'

export class SandboxFleet implements PublicSandboxFleet {
  readonly #plan: FleetPlan
  readonly #engine: KubernetesEngine
  readonly #closing = new AbortController()
  /** Calls that have not settled. */
  readonly #pending = new Set<Promise<unknown>>()
  #closed: Promise<void> | undefined

  constructor(options: FleetOptions) {
    const { kubernetes, ...plan } = kinds.readWithDefaults(fleetOptions, options, 'SandboxFleet')
    if (kubernetes === undefined) throw new OptionError('INVALID_OPTION', 'SandboxFleet needs kubernetes')
    this.#plan = plan
    this.#engine = new KubernetesEngine(planKubernetes(kubernetes), this.#plan)
  }

  async create(options?: FleetCreateOptions): Promise<FleetSandbox> {
    const values = kinds.readOptions(fleetCreateOptions, options, 'create')
    return this.#call(values.signal, (signal) =>
      this.#engine.create({
        id: values.id,
        ttl: values.ttl ?? this.#plan.ttl,
        labels: values.labels ?? {},
        timeout: values.timeout ?? this.#plan.createTimeout,
        signal,
      }),
    )
  }

  async get(id: string, options?: FleetCallOptions): Promise<FleetSandbox | null> {
    const { signal } = kinds.readOptions(fleetCallOptions, options, 'get')
    const checked = kinds.readArgument(sandboxId.read, id, 'id')
    return this.#call(signal, (stop) => this.#engine.get(checked, stop))
  }

  async list(options?: FleetCallOptions): Promise<FleetSandbox[]> {
    const { signal } = kinds.readOptions(fleetCallOptions, options, 'list')
    return this.#call(signal, (stop) => this.#engine.list(stop))
  }

  async delete(id: string, options?: FleetCallOptions): Promise<void> {
    const { signal } = kinds.readOptions(fleetCallOptions, options, 'delete')
    const checked = kinds.readArgument(sandboxId.read, id, 'id')
    this.#check()
    // The end of the fleet waits for it.
    await this.#track(this.#engine.delete(checked, signal))
  }

  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #close(): Promise<void> {
    this.#closing.abort()
    await Promise.allSettled(this.#pending)
    await this.#engine.close()
  }

  /** Makes a call, which the end of the fleet aborts. */
  async #call<T>(given: AbortSignal | undefined, perform: (signal: AbortSignal) => Promise<T>): Promise<T> {
    this.#check()
    const { signal } = this.#closing
    try {
      return await this.#track(perform(given === undefined ? signal : AbortSignal.any([given, signal])))
    } catch (error) {
      throw error instanceof AbortError && signal.aborted && !given?.aborted ? closed() : error
    }
  }

  async #track<T>(call: Promise<T>): Promise<T> {
    this.#pending.add(call)
    try {
      return await call
    } finally {
      this.#pending.delete(call)
    }
  }

  #check(): void {
    if (this.#closing.signal.aborted) throw closed()
  }
}

function closed(): SandboxError {
  return new SandboxError('SANDBOX_DESTROYED', 'the fleet has been closed')
}

function planKubernetes(
  values: NonNullable<kinds.OptionValues<typeof fleetOptions>['kubernetes']>,
): KubernetesPlan {
  const { warmPool, router } = values
  return {
    ...kinds.withDefaults(fleetKubernetesOptions, values),
    warmPool,
    router: router && { url: router.url, headers: router.headers ?? {} },
  }
}
