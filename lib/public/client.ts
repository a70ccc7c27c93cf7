/**
 * The methods of {@link Sandbox} over HTTP, for any runtime with `fetch`: Node, Bun, Deno, workers, browsers.
 *
 * Options are checked here as {@link Sandbox} checks them, before anything is sent, and the server's errors come back as
 * the same classes with the same codes. In addition every call can reject with CONNECTION_FAILED (the server cannot be
 * reached, or the connection broke; the command of an `exec` is killed then) and REQUEST_REFUSED (a wrong token, too many
 * requests).
 *
 * A request that only reads, removes, resizes or waits without a time limit is repeated up to three times, after 100, 300 and
 * 900 ms, when the connection broke or a proxy or a busy server answered with 502, 503 or 504. A command, a start, input or a
 * signal is never repeated: the first request may have reached the server.
 *
 * @packageDocumentation
 */
import type { Capabilities, Jobs, Logger, Process, Sandbox, Service } from './index.js'

export { OptionError, SandboxError } from './index.js'

/** Options of {@link SandboxClient}. */
export interface ClientOptions {
  /** The server's URL, like 'http://127.0.0.1:4747', with a path where a proxy serves it below one. */
  url: string | URL
  /** The server's token. Default: none. */
  token?: string
  /**
   * The header that has the token: `authorization`, or `x-nacre-token` where a proxy keeps `authorization` for itself.
   * Default: 'authorization'.
   */
  tokenHeader?: 'authorization' | 'x-nacre-token'
  /**
   * Headers of every request, for a proxy before the server. An `authorization` among them replaces the token's;
   * `content-type` is the client's own. Default: none.
   */
  headers?: Readonly<Record<string, string>>
  /** The function that makes requests. Default: the runtime's `fetch`. */
  fetch?: (input: string, init?: RequestInit) => Promise<Response>
  /**
   * Milliseconds in which the server must begin to answer a request that neither streams nor waits, all its attempts
   * together, 0 to 2147483647; 0 = none. The error is CONNECTION_FAILED. Commands, starts of processes, input, kills and waits
   * have no such limit. A server answers the other requests in milliseconds, so the default only ends those whose
   * connection has silently died. Default: 30000.
   */
  requestTimeout?: number
  /**
   * Milliseconds in which a stream of a process or a job tries to reconnect, 0 to 2147483647. Every event restarts the
   * time. Default: 30000.
   */
  reconnectTimeout?: number
  /**
   * Calls survive broken connections, and proxies that cut long requests. A call is repeated until its reply is here, and the
   * server performs it once. A command then continues for `reconnectTimeout` and 10 s after its client has ended without
   * `destroy`. Default: false.
   */
  resume?: boolean
  /** Receives errors of callbacks that cannot be reported otherwise. Default: none. */
  logger?: Logger
}

/** Durable jobs of the server: {@link Jobs} without its root. `follow` continues after a restart of the server. */
export type RemoteJobs = Omit<Jobs, 'root'>

/**
 * A sandbox on a server. The command of an `exec` or `execStream` is killed when its AbortSignal is aborted, and when this
 * program or the connection ends; processes, sessions and jobs continue.
 *
 * Properties of a {@link Process} or a {@link Service} reflect the last known state: from its start or its look-up, or from
 * `getStatus`, `getHealth`, `wait` and `kill`. Its output survives broken connections, with neither gap nor duplicate.
 * Callbacks and the signal of a service follow its restarts, as they do locally; its callbacks begin when it is ready, and
 * what `onStart` throws after a restart goes to `onError`. Input of more than 1 MiB reaches its first process only.
 *
 * `destroy` kills the processes and deletes the sessions that this object has started, and ends its requests. It leaves
 * everything else on the server alone. It rejects with CONNECTION_FAILED when the server cannot be reached.
 */
export interface SandboxClient extends Omit<Sandbox, 'capabilities' | 'jobs'> {
  readonly jobs: RemoteJobs
  /** The capabilities of the server's machine. */
  capabilities(): Promise<Capabilities>
}

export declare const SandboxClient: {
  /** Sends nothing. Throws {@link OptionError}. */
  new (options: ClientOptions): SandboxClient
  readonly prototype: SandboxClient
}
