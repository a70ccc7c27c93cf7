/**
 * `@nacre/fleet`: sandboxes on many machines, each with the methods of {@link SandboxClient}. They run on Kubernetes
 * with agent-sandbox.
 *
 * Calls survive broken connections and proxies that cut long requests: the client repeats a call until it receives the
 * reply, and the server performs it once. If a sandbox is lost, its calls reject with SANDBOX_LOST, and no other
 * sandbox ever performs them.
 *
 * @module packages/fleet
 */
import type { Logger, LostSandbox } from 'nacre'
import type { SandboxClient } from 'nacre/client'

export { OptionError, SandboxError } from 'nacre'

/** A `KubeConfig` of `@kubernetes/client-node`. */
export interface KubeConfigLike {
  getCurrentCluster(): { server: string } | null
}

/** The router of agent-sandbox. */
export interface FleetRouter {
  /** Its URL, like 'http://sandbox-router.agent-sandbox-system.svc:8080'. */
  url: string | URL
  /**
   * Headers to add for the router itself, such as its own `authorization`, which it does not forward. Default: none.
   */
  headers?: Readonly<Record<string, string>>
}

/** The cluster in which agent-sandbox runs. */
export interface FleetKubernetes {
  /** The namespace of the claims. Default: 'default'. */
  namespace?: string
  /** The name of the SandboxWarmPool that provides the sandboxes. */
  warmPool: string
  /**
   * How to reach the API server: a `KubeConfig` of @kubernetes/client-node 1. Default: the result of `loadFromDefault`, such as
   * the service account of the pod.
   */
  kubeConfig?: KubeConfigLike
  /** The router that forwards requests to the pods. Default: none, requests go to the IP addresses of the pods. */
  router?: FleetRouter
  /** The port of nacre's server in the pods, 1 to 65535. Default: 3000. */
  port?: number
}

/** Options of {@link SandboxFleet}. */
export interface FleetOptions {
  /** Runs sandboxes as pods of agent-sandbox. */
  kubernetes: FleetKubernetes
  /** The token that nacre's servers require. It is sent as `X-Nacre-Token`. Default: none. */
  token?: string
  /** Idle milliseconds after which a sandbox ends, 1000 to 2147483647. Default: 600000. */
  ttl?: number
  /**
   * Milliseconds in which a new sandbox must be ready, 1 to 2147483647. After that, `create` rejects with
   * SANDBOX_NOT_READY. Default: 120000.
   */
  createTimeout?: number
  /**
   * Time limit in milliseconds of requests to the API server or a sandbox that neither stream nor wait, for all
   * attempts together; 1 to 2147483647. Default: 30000.
   */
  requestTimeout?: number
  /** Milliseconds for which a call tries to reconnect to its sandbox, 0 to 2147483647. Default: 30000. */
  reconnectTimeout?: number
  /** Receives errors of background work, such as extending a sandbox. Default: none. */
  logger?: Logger
}

/** Options of `create`. */
export interface FleetCreateOptions {
  /**
   * The id: a DNS label of at most 63 characters. If a sandbox of the fleet already has it, `create` returns that
   * sandbox. Default: a random id.
   */
  id?: string
  /** Idle milliseconds after which the sandbox ends, 1000 to 2147483647. Default: the fleet's. */
  ttl?: number
  /** Labels of the claim and the pod, in the syntax of Kubernetes. Default: none. */
  labels?: Readonly<Record<string, string>>
  /** Milliseconds in which the sandbox must be ready, 1 to 2147483647. Default: the fleet's. */
  timeout?: number
  /** Aborting cancels the creation and deletes what was created. */
  signal?: AbortSignal
}

/** Options of `get`, `list` and `delete`. */
export interface FleetCallOptions {
  /** Aborting ends the call. */
  signal?: AbortSignal
}

/** A sandbox of a fleet. The end of an `await using` block deletes it. */
export interface FleetSandbox extends AsyncDisposable {
  readonly id: string
  /**
   * The client for commands, processes, files and jobs. Its use keeps the sandbox alive. Its `destroy` ends what it
   * started, but not the sandbox.
   */
  readonly client: SandboxClient
  readonly labels: Readonly<Record<string, string>>
  /** When the sandbox ends unless it is used; the last known value. */
  readonly expiresAt: Date
  /** Details of the loss, if the sandbox is lost; otherwise null. */
  readonly lost: LostSandbox | null
  /** Ends the sandbox and everything in it. Also resolves if it no longer exists. */
  destroy(): Promise<void>
}

/** Sandboxes on many machines. */
export interface SandboxFleet extends AsyncDisposable {
  /**
   * Creates a sandbox. Resolves when it is ready. After a failure or an abort, nothing remains. Rejects with
   * SANDBOX_NOT_READY, REQUEST_REFUSED, CONNECTION_FAILED or SANDBOX_LOST.
   */
  create(options?: FleetCreateOptions): Promise<FleetSandbox>
  /** Returns the sandbox with this id when it is ready, or null if it does not exist. Rejects with SANDBOX_LOST. */
  get(id: string, options?: FleetCallOptions): Promise<FleetSandbox | null>
  /**
   * Lists all sandboxes of the fleet, including those created by other programs. Calls of a sandbox that is not ready
   * wait until it is.
   */
  list(options?: FleetCallOptions): Promise<FleetSandbox[]>
  /** Ends a sandbox and everything in it. Also resolves if it does not exist. */
  delete(id: string, options?: FleetCallOptions): Promise<void>
  /** Ends the requests of all sandboxes. The sandboxes stay until their time to live has passed. */
  close(): Promise<void>
}

export declare const SandboxFleet: {
  /** Sends nothing. Throws {@link OptionError}. */
  new (options: FleetOptions): SandboxFleet
  readonly prototype: SandboxFleet
}
