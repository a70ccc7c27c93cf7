/**
 * The methods of {@link AnySandbox} over HTTP, for any runtime with `fetch`: Node, Bun, Deno, workers, browsers.
 *
 * The client checks options like a local sandbox before it sends anything, and reports the server's errors with the
 * same classes and codes. Every call can also reject with CONNECTION_FAILED (the server cannot be reached, or the
 * connection broke, which kills the command of an `exec`) and REQUEST_REFUSED (a wrong token, too many requests).
 *
 * If the connection breaks, or a proxy or a busy server responds with 502, 503 or 504, the client repeats requests that
 * only read, remove, resize or wait without a time limit: up to three times, after 100, 300 and 900 ms. It never
 * repeats a command, a start, input or a signal, because the first request may have reached the server.
 *
 * @packageDocumentation
 */
import { headers, serverUrl, token, tokenHeader } from '../schema/http.js'
import { table } from '../schema/kind.js'
import { milliseconds } from '../schema/numbers.js'
import { callback, flag, logger } from '../schema/values.js'
import type {
  AnySandbox,
  Archives,
  Logger,
  PortUrlOptions,
  ResumedOnServer,
  SuspendedOnServer,
  SuspendOptions,
  UploadOptions,
} from './index.js'

export type { AbortError, OptionError, PortUrlOptions, SandboxError } from './index.js'

/** Options of {@link SandboxClient}. */
export interface ClientOptions {
  /** The server's URL, like 'http://127.0.0.1:4747'. It may have a path, for a proxy. */
  url: string | URL
  /** The server's token. Default: none. */
  token?: string
  /**
   * The header that carries the token. Use `x-nacre-token` if a proxy consumes `authorization`.
   * Default: 'authorization'.
   */
  tokenHeader?: 'authorization' | 'x-nacre-token'
  /**
   * Headers to add to every request, for a proxy in front of the server. An `authorization` header here replaces the
   * token. The client sets `content-type` itself. Default: none.
   */
  headers?: Readonly<Record<string, string>>
  /** The function that sends requests. Default: the runtime's `fetch`. */
  fetch?: (input: string, init?: RequestInit) => Promise<Response>
  /**
   * Milliseconds in which the server must begin to respond to a request that neither streams nor waits, for all
   * attempts together; 0 to 2147483647, 0 = none. After that, the call rejects with CONNECTION_FAILED. The limit does
   * not apply to commands, starts of processes, input, kills and waits. Other requests take milliseconds, so the
   * default only affects connections that have silently died. Default: 30000.
   */
  requestTimeout?: number
  /**
   * Milliseconds for which the stream of a process or job tries to reconnect, 0 to 2147483647. Every event resets the
   * time. Default: 30000.
   */
  reconnectTimeout?: number
  /**
   * Whether calls survive broken connections and proxies that cut long requests. The client repeats a call until it
   * receives the reply, and the server performs the call once. If the client ends without `destroy`, its commands
   * continue for `reconnectTimeout` plus 10 s. Default: false.
   */
  resume?: boolean
  /** Receives callback errors that cannot be reported otherwise. Default: none. */
  logger?: Logger
}

export const clientOptions = table<ClientOptions>()({
  url: serverUrl,
  token,
  tokenHeader: { ...tokenHeader, default: 'authorization' },
  headers,
  fetch: { ...callback, bounds: 'a function like fetch' },
  requestTimeout: { ...milliseconds, default: 30_000 },
  reconnectTimeout: { ...milliseconds, default: 30_000 },
  resume: { ...flag, default: false },
  logger,
})

/**
 * A sandbox on a server. The server kills the command of an `exec` or `execStream` when its AbortSignal is aborted, and
 * when this program or the connection ends. Processes, sessions and jobs continue.
 *
 * Properties of a {@link Process} or a {@link Service} reflect the last known state: from its start or lookup, or from
 * `getStatus`, `getHealth`, `waitForExit` and `kill`. Its output survives broken connections, without a gap or a duplicate.
 * Callbacks and the signal of a service apply to its restarts too. Its callbacks begin when it is ready, and exceptions
 * of `onStart` after a restart go to `onError`. Input above 1 MiB reaches only the first process of a service.
 *
 * `workspace` and the checkpoints are those of the server's sandbox, which all of its clients share. Aborting `commit`,
 * `discard` or `checkpoint` asks the server to cancel it, and the call settles as a local one: if it has begun, it resolves.
 * If the connection breaks before the reply, it rejects with CONNECTION_FAILED, and may have been done. With a `signal`, it
 * waits on the server for 10 s after this program has ended, and without one not at all. After `destroy`, all calls of
 * `workspace` reject with SANDBOX_DESTROYED. There is no `fork`. Forks that the server serves have
 * clients of their own, of `{url}/forks/{name}`.
 *
 * `destroy` kills the processes and deletes the sessions that this object started, and ends its requests. It affects
 * nothing else on the server. It rejects with CONNECTION_FAILED if the server cannot be reached.
 */
export interface SandboxClient extends AnySandbox {
  /** The archives of the server. */
  readonly archives: Archives
  /**
   * Ends the sandbox of the server, for all of its clients, and writes it to an archive there. Only the routes of
   * {@link SandboxClient.archives} go on. Otherwise as {@link Sandbox.suspend}; STATE_DIR_UNAVAILABLE if the server has no place
   * for it, and REQUEST_REFUSED if the sandbox is not in the process of the server.
   *
   * If the connection breaks before the reply, it rejects with CONNECTION_FAILED, and `archives.list` shows whether it was done.
   */
  suspend(options?: SuspendOptions): Promise<SuspendedOnServer>
  /**
   * Sends an archive, with which the sandbox of the server goes on. Nothing may have used that sandbox: start the server with
   * `nacre serve --await-archive`, or with `serve` of a new `Sandbox`. Rejects as {@link Sandbox.resume}, with SANDBOX_IN_USE if a
   * session was created, and with what the source throws.
   */
  resume(
    archive: Uint8Array | AsyncIterable<Uint8Array> | ReadableStream<Uint8Array>,
    options?: UploadOptions,
  ): Promise<ResumedOnServer>
  /**
   * Returns a URL that leads to a port of a session, for HTTP and WebSockets: for browsers and programs without the token of
   * the server. Anyone with the URL can reach the port until the URL expires or the server stops. Requests in progress
   * when it expires continue.
   *
   * The server must allow it with `forwardPorts`: otherwise it rejects with REQUEST_REFUSED. A program need not listen yet. For a fork,
   * the URL has a host like `3000.fork-1.localhost`, which browsers find; `sessionId` is refused.
   */
  portUrl(port: number, options?: PortUrlOptions): Promise<string>
  /**
   * Ends the requests of this object, and leaves everything on the server as it is: processes, sessions and jobs. Later calls
   * reject with SANDBOX_DESTROYED. Never rejects. Idempotent. See {@link AnySandbox.destroy}.
   */
  close(): Promise<void>
}

export declare const SandboxClient: {
  /** Sends nothing. Throws {@link OptionError}. */
  new (options: ClientOptions): SandboxClient
  readonly prototype: SandboxClient
}
