/**
 * Requests to the API server for claims, by @kubernetes/client-node.
 *
 * Each has a time limit and an AbortSignal, and is repeated after what may pass: a broken connection, a busy or restarting
 * API server. The callers make their writes safe to repeat, by names and resource versions.
 */
import {
  CustomObjectsApi,
  createConfiguration,
  KubeConfig,
  ServerConfiguration,
} from '@kubernetes/client-node'
import { AbortError, Backoff, OptionError, SandboxError } from 'nacre/internal'
import type { KubeConfigLike } from '../public.js'
import { type Claim, GROUP, PLURAL, SANDBOX_GROUP, SANDBOX_PLURAL, SELECTOR, VERSION } from './claim.js'
import { watchLines } from './watch-stream.js'

/** Milliseconds of one attempt. */
const ATTEMPT_MS = 10_000

/** Seconds after which the API server ends a watch. One that is still open later has silently died. */
const WATCH_SECONDS = 240

/** Statuses after which a request may succeed a moment later. */
const PASSING = new Set([429, 500, 502, 503, 504])

/** The status of an error of the API server; undefined when it has not answered. */
export function statusOf(error: unknown): number | undefined {
  const { code } = (error ?? {}) as { code?: unknown }
  // Errors of an abort have numbers of their own.
  return typeof code === 'number' && code >= 100 ? code : undefined
}

export interface ClaimList {
  items: Claim[]
  metadata: { resourceVersion?: string }
}

export interface ApiOptions {
  namespace: string
  kubeConfig: KubeConfigLike | undefined
  /** Milliseconds of a request with all its attempts. */
  timeout: number
}

export class KubernetesApi {
  readonly #options: ApiOptions
  #loaded: KubeConfig | undefined

  constructor(options: ApiOptions) {
    this.#options = options
  }

  /** Rejects with the status 409 when the name is taken. */
  create(body: Claim, signal: AbortSignal | undefined): Promise<Claim> {
    return this.#request(signal, (api) => api.createNamespacedCustomObject({ ...this.#claims, body }))
  }

  async get(name: string, signal: AbortSignal | undefined): Promise<Claim | undefined> {
    return orMissing(
      this.#request<Claim>(signal, (api) => api.getNamespacedCustomObject({ ...this.#claims, name })),
    )
  }

  list(signal: AbortSignal | undefined): Promise<ClaimList> {
    const request = { ...this.#claims, labelSelector: SELECTOR }
    return this.#request(signal, (api) => api.listNamespacedCustomObject(request))
  }

  /** A merge patch. Rejects with the status 409 when the claim has another version than the patch names. */
  patch(name: string, body: object, signal: AbortSignal | undefined): Promise<Claim> {
    const type = 'application/merge-patch+json'
    return this.#request(
      signal,
      (api) => api.patchNamespacedCustomObject({ ...this.#claims, name, body }),
      type,
    )
  }

  /** Resolves also when there is none, or the one with this uid is gone. */
  async delete(name: string, uid: string | undefined, signal: AbortSignal | undefined): Promise<void> {
    const body = uid === undefined ? {} : { preconditions: { uid } }
    const request = this.#request(signal, (api) =>
      api.deleteNamespacedCustomObject({ ...this.#claims, name, body }),
    )
    await orMissing(
      request.catch((error) => {
        // Another claim has the name by now.
        if (statusOf(error) !== 409 || uid === undefined) throw error
      }),
    )
  }

  /** The uid of a Sandbox. */
  async sandboxUid(name: string, signal: AbortSignal | undefined): Promise<string | undefined> {
    const resource = { ...this.#claims, group: SANDBOX_GROUP, plural: SANDBOX_PLURAL, name }
    const found = await orMissing(
      this.#request<Claim>(signal, (api) => api.getNamespacedCustomObject(resource)),
    )
    return found?.metadata.uid
  }

  /** Watches the claims of fleets. Resolves when the watch ends; rejects when it fails. */
  async watch(
    resourceVersion: string,
    stop: AbortSignal,
    onEvent: (type: string, object: Claim & { code?: number }) => void,
  ): Promise<void> {
    const config = this.#config
    const path = `/apis/${GROUP}/${VERSION}/namespaces/${this.#options.namespace}/${PLURAL}`
    const query = {
      labelSelector: SELECTOR,
      resourceVersion,
      allowWatchBookmarks: 'true',
      timeoutSeconds: String(WATCH_SECONDS),
    }
    const limit = AbortSignal.any([stop, AbortSignal.timeout((WATCH_SECONDS + 30) * 1000)])
    await watchLines({ config, path, query, stop: limit }, (event) => {
      const { type, object } = event as { type: string; object: Claim & { code?: number } }
      onEvent(type, object)
    })
  }

  get #claims() {
    return { group: GROUP, version: VERSION, namespace: this.#options.namespace, plural: PLURAL }
  }

  async #request<T>(
    signal: AbortSignal | undefined,
    perform: (api: CustomObjectsApi) => Promise<unknown>,
    contentType?: string,
  ): Promise<T> {
    const deadline = AbortSignal.timeout(this.#options.timeout)
    const stop = signal === undefined ? deadline : AbortSignal.any([signal, deadline])
    const backoff = new Backoff(50, 2000)
    for (;;) {
      if (signal?.aborted) throw new AbortError(signal.reason, undefined, 'the request to the API server')
      try {
        const api = this.#api(AbortSignal.any([stop, AbortSignal.timeout(ATTEMPT_MS)]), contentType)
        return (await perform(api)) as T
      } catch (error) {
        if (signal?.aborted) continue
        const status = statusOf(error)
        if (error instanceof OptionError || (status !== undefined && !PASSING.has(status))) throw error
        if (deadline.aborted) throw unreachable(error)
        await backoff.wait(stop, retryAfterOf(error))
      }
    }
  }

  #api(signal: AbortSignal, contentType: string | undefined): CustomObjectsApi {
    const config = this.#config
    const cluster = config.getCurrentCluster()
    if (cluster === null)
      throw new OptionError('INVALID_OPTION', 'kubernetes.kubeConfig has no current cluster')
    const configuration = createConfiguration({
      baseServer: new ServerConfiguration(cluster.server, {}),
      authMethods: { default: config },
      promiseMiddleware: [
        {
          async pre(request) {
            request.setSignal(signal as never)
            if (contentType !== undefined) request.setHeaderParam('Content-Type', contentType)
            return request
          },
          post: async (response) => response,
        },
      ],
    })
    return new CustomObjectsApi(configuration)
  }

  /** The default configuration is read at the first request, because its files may be missing. */
  get #config(): KubeConfig {
    this.#loaded ??= (this.#options.kubeConfig as KubeConfig | undefined) ?? defaultConfig()
    return this.#loaded
  }
}

function defaultConfig(): KubeConfig {
  const config = new KubeConfig()
  config.loadFromDefault()
  return config
}

async function orMissing<T>(request: Promise<T>): Promise<T | undefined> {
  try {
    return await request
  } catch (error) {
    if (statusOf(error) === 404) return undefined
    throw error
  }
}

/** Milliseconds that the API server asks to wait. */
function retryAfterOf(error: unknown): number {
  const { headers } = (error ?? {}) as { headers?: Record<string, string> }
  const seconds = Number(headers?.['retry-after'])
  return Number.isFinite(seconds) ? Math.min(seconds * 1000, ATTEMPT_MS) : 0
}

function unreachable(cause: unknown): SandboxError {
  return new SandboxError('CONNECTION_FAILED', `the API server cannot be reached: ${textOf(cause)}`, {
    cause,
  })
}

/** What to do about statuses that do not pass by themselves. */
const REMEDIES: Record<number, string> = {
  401: '; check the credentials of kubernetes.kubeConfig',
  403: '; allow its user all verbs of deploy/agent-sandbox/rbac.yaml',
  404: '; check the namespace, and that agent-sandbox and its extensions are installed',
}

/** Whether the API server will refuse the same request again until an administrator changes something. */
export function isLasting(error: unknown): boolean {
  return (statusOf(error) ?? 0) in REMEDIES
}

/** The error of a fleet for one of the API server. */
export function refusalOf(error: unknown): unknown {
  const status = statusOf(error)
  if (status === undefined) return error
  const message = `the API server has refused the request with status ${status}: ${textOf(error)}${REMEDIES[status] ?? ''}`
  return new SandboxError('REQUEST_REFUSED', message, { cause: error })
}

/** What the API server says, or the error of the connection. */
export function textOf(error: unknown): string {
  const { body, message } = (error ?? {}) as { body?: unknown; message?: unknown }
  const parsed = typeof body === 'string' ? parse(body) : body
  const { message: given } = (parsed ?? {}) as { message?: unknown }
  return String(given ?? message ?? error).slice(0, 500)
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return { message: text }
  }
}
