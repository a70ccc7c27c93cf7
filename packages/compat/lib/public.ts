/**
 * Speaks the APIs of E2B and of Daytona, so that programs with their SDKs run against this machine.
 *
 * @module packages/compat
 */
import type { Isolation, Logger, OptionError, SandboxError } from 'nacre'

/** Options of {@link serveE2b}. */
export interface E2bOptions {
  /** The port on 127.0.0.1, 0 to 65535; 0 selects a free one. Default: 49983. */
  port?: number
  /**
   * The directory with one directory for each sandbox. It is created with mode 0700, and must be for this user alone. Paused
   * sandboxes stay there, with up to 512 MiB of the state of shells for each, and the next server has the same key. Only one server can use it at a time. Default: a temporary
   * directory, which `close` removes.
   */
  root?: string
  /**
   * What the programs of each sandbox may read, write and reach; see {@link Isolation}. They can always write the sandbox's own
   * directory. 'none' means no restrictions. If this machine cannot enforce it, serveE2b rejects with ISOLATION_UNSUPPORTED.
   * Default: 'workspace+network'.
   */
  isolation?: 'workspace' | 'workspace+network' | 'none'
  /** Maximum number of running sandboxes, 1 to 10000. Further requests get 429, as from E2B. Default: 20. */
  maxSandboxes?: number
  /** Receives what the server does not support, and failures. Default: none. */
  logger?: Logger
}

/** A server that speaks the API of E2B. */
export interface ServingE2b extends AsyncDisposable {
  /** The address of the API and of all sandboxes, like 'http://127.0.0.1:49983'. */
  readonly url: string
  /** The API key that clients must send. */
  readonly key: string
  /** The variables that point the SDKs of E2B here: E2B_API_KEY, E2B_API_URL and E2B_SANDBOX_URL. */
  readonly env: Readonly<Record<string, string>>
  /** Ends the server and every process of its sandboxes, and removes those that were running. Paused ones stay, and the
   * files of those whose pause was due. Idempotent. */
  close(): Promise<void>
}

/**
 * Serves the API of E2B on 127.0.0.1. Resolves when it listens, and a sandbox has been started for a check.
 *
 * Rejects with {@link OptionError}, {@link SandboxError}, or the error of the port.
 */
export declare function serveE2b(options?: E2bOptions): Promise<ServingE2b>

/** Options of {@link serveDaytona}. */
export interface DaytonaOptions {
  /** The port on 127.0.0.1, 0 to 65535; 0 selects a free one. Default: 3986. */
  port?: number
  /**
   * The directory with one directory for each sandbox. It is created with mode 0700, and must be for this user alone. All
   * sandboxes stay there, stopped, with up to 512 MiB of the state of shells for each, for the next server, which has the same key. Only one server can use it at a time. Default: a
   * temporary directory, which `close` removes.
   */
  root?: string
  /**
   * What the programs of each sandbox may read, write and reach; see {@link Isolation}. They can always write the sandbox's own
   * directory. 'none' means no restrictions. If this machine cannot enforce it, serveDaytona rejects with
   * ISOLATION_UNSUPPORTED. Default: 'workspace+network'.
   */
  isolation?: 'workspace' | 'workspace+network' | 'none'
  /** Maximum number of started sandboxes, 1 to 10000. Further requests get 429, as from Daytona. Default: 20. */
  maxSandboxes?: number
  /** Receives what the server does not support, and failures. Default: none. */
  logger?: Logger
}

/** A server that speaks the API of Daytona. */
export interface ServingDaytona extends AsyncDisposable {
  /** The address of the API, like 'http://127.0.0.1:3986/api'. */
  readonly url: string
  /** The API key that clients must send. */
  readonly key: string
  /** The variables that point the SDKs of Daytona here: DAYTONA_API_KEY and DAYTONA_API_URL. */
  readonly env: Readonly<Record<string, string>>
  /** Ends the server and every process of its sandboxes, which stay as stopped ones. Idempotent. */
  close(): Promise<void>
}

/**
 * Serves the API of Daytona on 127.0.0.1. Resolves when it listens, and a sandbox has been started for a check.
 *
 * Rejects with {@link OptionError}, {@link SandboxError}, or the error of the port.
 */
export declare function serveDaytona(options?: DaytonaOptions): Promise<ServingDaytona>
