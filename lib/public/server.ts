/**
 * A sandbox over HTTP. docs/http.md describes every route; `nacre/client` calls them.
 *
 * @packageDocumentation
 */
import type { Logger, Sandbox } from './index.js'

/** Options of {@link createServer}. */
export interface ServerOptions {
  /**
   * The token that requests must send as `Authorization: Bearer <token>`: at least 16 characters of printable ASCII, compared
   * in constant time. Without one, the server answers only requests from this machine to a loopback name. Default: none.
   */
  token?: string
  /** Origins of pages that may call, like 'https://example.com'. Requests of any other `Origin` are refused. Default: none. */
  allowedOrigins?: string | readonly string[]
  /** The largest body of a request, in bytes. Default: 16777216 (16 MiB). */
  maxBodyBytes?: number
  /** Concurrent requests, including streams; more are answered with 503 OVERLOADED. 1 to 1000000. Default: 1024. */
  maxRequests?: number
  /** Milliseconds between the signs of life of a silent response, 1 to 2147483647. Default: 15000. */
  heartbeat?: number
  /** Receives one line per request (info) and the reasons of internal errors (error). Default: none. */
  logger?: Logger
}

/** A server without a listener. */
export interface Server {
  /**
   * Answers a request. `env` is what the runtime passes with it: Bun its server, `@hono/node-server` its bindings. It has the
   * caller's address, so it is required without a token.
   */
  fetch(request: Request, env?: unknown): Promise<Response>
  /** The OpenAPI document, which is served at /openapi.json as well. */
  document(): object
  /**
   * Refuses new requests, aborts foreground commands, kills all background processes, and resolves when every request has ended.
   * The sandbox is not destroyed.
   */
  close(): Promise<void>
}

/**
 * Makes a server of a sandbox.
 *
 * Throws OptionError.
 */
export declare function createServer(sandbox: Sandbox, options?: ServerOptions): Server

/** Options of {@link serve}. */
export interface ServeOptions extends ServerOptions {
  /** Where to listen. Any host but a loopback one needs a token. Default: '127.0.0.1'. */
  host?: string
  /** 0 to 65535; 0 is any free port. Default: 4747. */
  port?: number
  /**
   * Also serves the runtime API of Kubernetes' agent-sandbox, which has no authentication. Its packages are optional peers of
   * nacre: `@grpc/grpc-js`, `@grpc/proto-loader`, `@grpc/reflection` and `grpc-health-check`. `sandbox` must be a Sandbox of
   * this process. True: with the defaults. Default: none.
   */
  sandboxd?: boolean | SandboxdOptions
  /** A file that holds the token, read once; blanks around it are removed. Excludes `token`. */
  tokenFile?: string
  /** Maximum bytes of a request's headers, 1024 to 1048576; more are answered with 431. Default: 16384. */
  maxHeaderBytes?: number
  /** Concurrent connections; more are closed immediately. 1 to 1000000. Default: 2048. */
  maxConnections?: number
  /** Milliseconds in which the headers of a request must arrive, 1 to 2147483647. Default: 10000. */
  headersTimeout?: number
  /**
   * Milliseconds in which all of a request must arrive: at least `headersTimeout`, at most 2147483647. Default: 60000.
   */
  requestTimeout?: number
  /** Milliseconds that a connection may be idle between two requests, 1 to 2147483647. Default: 5000. */
  keepAliveTimeout?: number
  /** Milliseconds that `close` may take before connections are cut, 0 to 2147483647. Default: 10000. */
  shutdownTimeout?: number
  /**
   * Whether SIGTERM and SIGINT close the server, destroy the sandbox and end this process: with exit code 0 when everything
   * ended within `shutdownTimeout`, otherwise with 143 or 130. A second signal ends it immediately. Default: true.
   */
  handleSignals?: boolean
}

/** Options of {@link ServeOptions.sandboxd}. */
export interface SandboxdOptions {
  /** The port of the gRPC service, 0 to 65535; 0 is any free port. Default: 9090. */
  grpcPort?: number
  /** The port of the REST API, 0 to 65535; 0 is any free port. Default: 8080. */
  restPort?: number
  /** Where both listen. sandboxd has no authentication, whatever the host. Default: {@link ServeOptions.host}. */
  host?: string
  /**
   * The directory that paths and working directories do not leave, symlinks included. It is made if it is missing.
   * Default: '/workspace'.
   */
  root?: string | URL
  /** How the names of variables begin that `GET /v1/metadata` shows; not empty. Default: 'SANDBOX_'. */
  metadataPrefix?: string
}

/** Where sandboxd listens. */
export interface ServingSandboxd {
  readonly host: string
  readonly grpcPort: number
  readonly restPort: number
  /** The root, without symlinks. */
  readonly root: string
}

/** A server that listens. */
export interface Serving extends AsyncDisposable {
  /** The address. */
  readonly host: string
  readonly port: number
  /** Like 'http://127.0.0.1:4747'. */
  readonly url: string
  /** Undefined without the option `sandboxd`. */
  readonly sandboxd: ServingSandboxd | undefined
  /**
   * Stops listening, ends everything as {@link Server.close} does, and resolves when all connections are closed. Idempotent.
   * The sandbox is not destroyed.
   */
  close(): Promise<void>
}

/**
 * Serves a sandbox over HTTP, on Node and Bun. Resolves when it listens.
 *
 * Rejects with OptionError, also when there is no token and the host is not a loopback one, and with the error of the
 * system when it cannot listen.
 */
export declare function serve(sandbox: Sandbox, options?: ServeOptions): Promise<Serving>
