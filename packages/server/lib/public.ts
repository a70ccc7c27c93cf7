/**
 * `@nacre/server` serves a sandbox over HTTP, for `nacre/client` and other clients. docs/http.md describes every route.
 *
 * @module packages/server
 */

import type { Logger, Sandbox } from 'nacre'
import type { SandboxClient } from 'nacre/client'

/** Options of {@link createServer} and {@link serve}. */
export interface ServerOptions {
  /**
   * The token that requests must send as `Authorization: Bearer <token>`: at least 16 characters of printable ASCII,
   * compared in constant time. Default: none, and the server accepts only requests from this machine to a loopback
   * name, but those of every user of the machine.
   */
  token?: string
  /**
   * Origins of web pages that may send requests, like 'https://example.com'. Requests with another `Origin` are
   * rejected. Default: none.
   */
  allowedOrigins?: string | readonly string[]
  /** Maximum size of a request body in bytes. Default: 17825792 (17 MiB). */
  maxBodyBytes?: number
  /**
   * Maximum number of concurrent requests, including streams, 1 to 1000000. Further requests get 503 OVERLOADED.
   * Default: 1024.
   */
  maxRequests?: number
  /** Milliseconds between the signs of life of a silent response, 1 to 2147483647. Default: 15000. */
  heartbeat?: number
  /** Receives one line per request (info) and the causes of internal errors (error). Default: none. */
  logger?: Logger
}

/** Options of {@link createServer}. */
export interface CreateServerOptions extends ServerOptions {
  /**
   * States that the caller of {@link Server.fetch} has authenticated each request. The server then accepts requests
   * without a token, from any address and through proxies. Excludes `token`. Default: false.
   */
  authenticated?: boolean
}

/** A server without a listener. */
export interface Server {
  /**
   * Handles a request. `env` is the second argument that the runtime passes: the server on Bun, the bindings of
   * `@hono/node-server`. It has the caller's address: without a token and without it, the server rejects the request.
   */
  fetch(request: Request, env?: unknown): Promise<Response>
  /** Returns the OpenAPI document, which the server also serves at /openapi.json. */
  document(): object
  /**
   * Rejects new requests, aborts commands and kills all background processes. Resolves when every request
   * has ended. Does not destroy the sandbox.
   */
  close(): Promise<void>
}

/**
 * Creates a server for a sandbox, without a listener. With a `SandboxClient`, it forwards to that client's server.
 *
 * Throws OptionError for bad options, for any object that is not a Sandbox or SandboxClient from the same copy of nacre, and
 * for one with a replaced method, which the server would not call.
 */
export declare function createServer(sandbox: Sandbox | SandboxClient, options?: CreateServerOptions): Server

/** Options of {@link serve}. */
export interface ServeOptions extends ServerOptions {
  /** Address to listen on. Any address other than loopback needs a token. Default: '127.0.0.1'. */
  host?: string
  /** Port to listen on, 0 to 65535; 0 selects a free port. Default: 4747. */
  port?: number
  /**
   * Also serves a page at `/console`, on which people see what runs, type, and kill. It needs the package `@nacre/console`.
   * The page itself needs no token; what it shows does. Default: false.
   */
  console?: boolean
  /**
   * Directory of `record` of `@nacre/console`, whose recordings callers can read: `/v1/recordings` lists them, and the page
   * plays them. It needs that package. Default: none.
   */
  recordings?: string
  /**
   * Also forwards `/v1/ports/{port}/` to the program of a session that listens on the port: requests and WebSockets, with the
   * token or with a link of `SandboxClient.portUrl`. Never to another program of the machine. `sandbox` must be a Sandbox of
   * this process.
   *
   * Pages of these programs have the origin of the server. So other calls from pages need an origin in `allowedOrigins`, and
   * `console` is excluded. Default: false.
   */
  forwardPorts?: boolean
  /**
   * Also serves the forks of the sandbox, and the forks of these. `GET /v1/forks` lists their names, and each has all routes of the
   * server below `/forks/{name}`. `http://3000.{name}.localhost:{port}` leads to port 3000 in the fork, with the token or with a link
   * of `SandboxClient.portUrl`, and never to a program of the machine: sessions need a network namespace of their own, as with
   * `isolation: 'workspace'`. What runs in forks ends with the server, too. Pages of another origin may not call then, unless `allowedOrigins` has it. `sandbox` must be a Sandbox
   * of this process. Default: false.
   */
  forks?: boolean
  /**
   * Also serves the runtime API of Kubernetes' agent-sandbox, which has no authentication. It needs the package
   * `@nacre/sandboxd`. `sandbox` must be a Sandbox of this process. True uses the defaults. Default: none.
   */
  sandboxd?: boolean | SandboxdOptions
  /** File that holds the token. It is read once, and surrounding blanks are removed. Excludes `token`. */
  tokenFile?: string
  /** Maximum size of a request's headers in bytes, 1024 to 1048576. Larger headers get 431. Default: 16384. */
  maxHeaderBytes?: number
  /**
   * Maximum number of concurrent connections, 1 to 1000000. Further connections are closed immediately. Default: 2048.
   */
  maxConnections?: number
  /** Milliseconds in which the headers of a request must arrive, 1 to 2147483647. Default: 10000. */
  headersTimeout?: number
  /**
   * Milliseconds in which a whole request must arrive: at least `headersTimeout`, at most 2147483647. Default: 60000.
   */
  requestTimeout?: number
  /** Milliseconds that a connection may be idle between two requests, 1 to 2147483647. Default: 5000. */
  keepAliveTimeout?: number
  /** Milliseconds that `close` may take before the server cuts connections, 0 to 2147483647. Default: 10000. */
  shutdownTimeout?: number
}

/** Options of {@link ServeOptions.sandboxd}. */
export interface SandboxdOptions {
  /** Port of the gRPC service, 0 to 65535; 0 selects a free port. Default: 9090. */
  grpcPort?: number
  /** Port of the REST API, 0 to 65535; 0 selects a free port. Default: 8080. */
  restPort?: number
  /**
   * Address that both listen on, whatever {@link ServeOptions.host} is. sandboxd has no authentication on any address.
   * Default: '127.0.0.1'.
   */
  host?: string
  /**
   * Directory that confines all paths and working directories, including symlinks. It is created if it is missing.
   * Default: '/workspace'.
   */
  root?: string | URL
  /** Prefix of the environment variables that `GET /v1/metadata` shows. Must not be empty. Default: 'SANDBOX_'. */
  metadataPrefix?: string
}

/** The addresses on which sandboxd listens. */
export interface ServingSandboxd {
  readonly host: string
  readonly grpcPort: number
  readonly restPort: number
  /** The root, without symlinks. */
  readonly root: string
}

/** A running server. */
export interface Serving extends AsyncDisposable {
  /** The address on which the server listens. */
  readonly host: string
  readonly port: number
  /** Like 'http://127.0.0.1:4747'. */
  readonly url: string
  /** The addresses of sandboxd. Undefined without the option `sandboxd`. */
  readonly sandboxd: ServingSandboxd | undefined
  /**
   * Stops listening, and ends requests and processes like {@link Server.close}. Resolves when all connections are
   * closed: with true if all ended within `shutdownTimeout`. Idempotent. Does not destroy the sandbox.
   */
  close(): Promise<boolean>
}

/**
 * Serves a sandbox over HTTP, on Node and Bun. Resolves when the server is listening. It handles no signals; `nacre serve`
 * does.
 *
 * Rejects with OptionError, also for an object that only has the same methods, and for an address other than loopback
 * without a token. Rejects with the error of the system if it cannot listen.
 */
export declare function serve(sandbox: Sandbox | SandboxClient, options?: ServeOptions): Promise<Serving>
