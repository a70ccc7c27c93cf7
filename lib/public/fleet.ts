/**
 * Sandboxes on many machines, each with the methods of {@link SandboxClient}: on Kubernetes with agent-sandbox, or on a list
 * of hosts.
 *
 * Every call of a sandbox survives broken connections and proxies that cut long requests. It is repeated until its reply
 * is here, and the server performs it once. When a sandbox is lost, its calls reject with SANDBOX_LOST, and no other
 * sandbox ever answers them.
 *
 * @packageDocumentation
 */
import type { SandboxClient } from './client.js'
import type { Logger, LostSandbox } from './index.js'

export { OptionError, SandboxError } from './index.js'

/** A `KubeConfig` of `@kubernetes/client-node`. */
export interface KubeConfigLike {
  getCurrentCluster(): { server: string } | null
}

/** The router of agent-sandbox. */
export interface FleetRouter {
  /** Its URL, like 'http://sandbox-router.agent-sandbox-system.svc:8080'. */
  url: string | URL
  /** Headers for the router itself, such as its own `authorization`, which it does not pass on. Default: none. */
  headers?: Readonly<Record<string, string>>
}

/** Where agent-sandbox runs. Needs the package `@kubernetes/client-node`. */
export interface FleetKubernetes {
  /** The namespace of the claims. Default: 'default'. */
  namespace?: string
  /** The name of the SandboxWarmPool that sandboxes come from. */
  warmPool: string
  /** How to reach the API server. Default: what `loadFromDefault` finds, such as the service account of the pod. */
  kubeConfig?: KubeConfigLike
  /** The router that requests go through. Default: none, requests go to the IP addresses of the pods. */
  router?: FleetRouter
  /** The port of nacre's server in the pods, 1 to 65535. Default: 3000. */
  port?: number
}

/** Options of {@link SandboxFleet}. One of `kubernetes` and `hosts` is required. */
export interface FleetOptions {
  /** Sandboxes are pods of agent-sandbox. */
  kubernetes?: FleetKubernetes
  /** Sandboxes are sessions on these servers, by their URLs. They share the machine, its files and its processes. */
  hosts?: ReadonlyArray<string | URL>
  /** The token of nacre's servers. It is sent as `X-Nacre-Token`. Default: none. */
  token?: string
  /** Milliseconds after which a sandbox that is not used ends, 1000 to 2147483647. Default: 600000. */
  ttl?: number
  /** Milliseconds in which a sandbox must be ready, 1 to 2147483647. The error is SANDBOX_NOT_READY. Default: 120000. */
  createTimeout?: number
  /**
   * Milliseconds in which a request to the API server or a sandbox that neither streams nor waits must be answered, all its
   * attempts together, 1 to 2147483647. Default: 30000.
   */
  requestTimeout?: number
  /** Milliseconds in which a call tries to reach its sandbox again, 0 to 2147483647. Default: 30000. */
  reconnectTimeout?: number
  /** Receives errors of work in the background, such as extending a sandbox. Default: none. */
  logger?: Logger
}

/** Options of `create`. */
export interface FleetCreateOptions {
  /**
   * The id: a DNS label of at most 63 characters. When a sandbox of the fleet has it already, that one is the result.
   * Default: a random one.
   */
  id?: string
  /** Milliseconds after which the sandbox ends when it is not used, 1000 to 2147483647. Default: that of the fleet. */
  ttl?: number
  /** Labels of the claim and the pod, in the syntax of Kubernetes. Default: none. */
  labels?: Readonly<Record<string, string>>
  /** Milliseconds in which the sandbox must be ready, 1 to 2147483647. Default: that of the fleet. */
  timeout?: number
  /** Aborts the creation; what was created is deleted. */
  signal?: AbortSignal
}

/** Options of `get`, `list` and `delete`. */
export interface FleetCallOptions {
  /** Aborts the call. */
  signal?: AbortSignal
}

/** One sandbox of a fleet. It is deleted at the end of an `await using`. */
export interface FleetSandbox extends AsyncDisposable {
  readonly id: string
  /**
   * Commands, processes, files and jobs of the sandbox. Using it keeps the sandbox. Its `destroy` ends what it has started,
   * and leaves the sandbox.
   */
  readonly client: SandboxClient
  readonly labels: Readonly<Record<string, string>>
  /** When the sandbox ends unless it is used, as far as it is known. */
  readonly expiresAt: Date
  /** What was lost, when the sandbox is; null otherwise. */
  readonly lost: LostSandbox | null
  /** Ends the sandbox and everything in it. Resolves also when it does not exist any more. */
  delete(): Promise<void>
}

/** Sandboxes on many machines. */
export interface SandboxFleet extends AsyncDisposable {
  /**
   * Creates a sandbox, and resolves when it can be used. When it fails, or is aborted, nothing is left behind. Rejects with
   * SANDBOX_NOT_READY, REQUEST_REFUSED, CONNECTION_FAILED and SANDBOX_LOST.
   */
  create(options?: FleetCreateOptions): Promise<FleetSandbox>
  /** The sandbox with this id, when it can be used; null when there is none. Rejects with SANDBOX_LOST. */
  get(id: string, options?: FleetCallOptions): Promise<FleetSandbox | null>
  /** All sandboxes of the fleet, those that others have created included. Calls of one that is not ready wait for that. */
  list(options?: FleetCallOptions): Promise<FleetSandbox[]>
  /** Ends a sandbox and everything in it. Resolves also when there is none. */
  delete(id: string, options?: FleetCallOptions): Promise<void>
  /**
   * Ends the requests of all sandboxes. On Kubernetes, the sandboxes stay until their time to live is over. On hosts, those
   * that this object has created are deleted.
   */
  close(): Promise<void>
}

export declare const SandboxFleet: {
  /** Sends nothing. Throws {@link OptionError}. */
  new (options: FleetOptions): SandboxFleet
  readonly prototype: SandboxFleet
}
