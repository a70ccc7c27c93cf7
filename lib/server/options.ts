/**
 * The options of createServer and serve.
 */
import { OptionError } from '../base/errors.js'
import {
  createServerOptions,
  sandboxdOptions,
  serveOptions,
  serverOptions,
} from '../protocol/server-options.js'
import type { OptionValues } from '../schema/kind.js'
import { readOptions } from '../schema/read.js'
import type { SandboxdPlan } from './sandboxd/plan.js'

export type ServerValues = OptionValues<typeof createServerOptions>

export interface ServerPlan {
  token: string | undefined
  /** Whether the caller of `fetch` has checked each request. */
  isAuthenticated: boolean
  /** Origins of pages that may call; none by default. */
  allowedOrigins: string[]
  maxBodyBytes: number
  maxRequests: number
  /** Milliseconds. */
  heartbeat: number
  logger: ServerValues['logger']
}

export interface ServePlan {
  server: ServerPlan
  host: string
  port: number
  tokenFile: string | undefined
  maxHeaderBytes: number
  maxConnections: number
  headersTimeout: number
  requestTimeout: number
  keepAliveTimeout: number
  shutdownTimeout: number
  handleSignals: boolean
  sandboxd: SandboxdPlan | undefined
}

type ServeValues = Omit<ServePlan, 'sandboxd'>

/** Checks the options of `createServer`. Throws OptionError. */
export function planServer(options: unknown): ServerPlan {
  return serverPlan(readOptions(createServerOptions, options, 'createServer'))
}

/** Checks the options of `serve`. Throws OptionError. */
export function planServe(options: unknown): ServePlan {
  const values = readOptions(serveOptions, options, 'serve')
  if (values.token !== undefined && values.tokenFile !== undefined)
    throw new OptionError('INVALID_OPTION', 'token and tokenFile exclude each other')
  const plan: ServeValues = {
    server: serverPlan(values),
    host: values.host ?? serveOptions.host.default,
    port: values.port ?? serveOptions.port.default,
    tokenFile: values.tokenFile,
    maxHeaderBytes: values.maxHeaderBytes ?? serveOptions.maxHeaderBytes.default,
    maxConnections: values.maxConnections ?? serveOptions.maxConnections.default,
    headersTimeout: values.headersTimeout ?? serveOptions.headersTimeout.default,
    requestTimeout: values.requestTimeout ?? serveOptions.requestTimeout.default,
    keepAliveTimeout: values.keepAliveTimeout ?? serveOptions.keepAliveTimeout.default,
    shutdownTimeout: values.shutdownTimeout ?? serveOptions.shutdownTimeout.default,
    handleSignals: values.handleSignals ?? serveOptions.handleSignals.default,
  }
  return { ...plan, sandboxd: values.sandboxd && planSandboxd(values.sandboxd, plan) }
}

function planSandboxd(values: OptionValues<typeof sandboxdOptions>, serve: ServeValues): SandboxdPlan {
  const grpcPort = values.grpcPort ?? sandboxdOptions.grpcPort.default
  const restPort = values.restPort ?? sandboxdOptions.restPort.default
  const { maxConnections, maxHeaderBytes, headersTimeout, keepAliveTimeout } = serve
  const ports = [grpcPort, restPort, serve.port].filter((port) => port !== 0)
  if (new Set(ports).size < ports.length)
    throw new OptionError('INVALID_OPTION', 'port, sandboxd.grpcPort and sandboxd.restPort must differ')
  return {
    grpcPort,
    restPort,
    host: values.host ?? sandboxdOptions.host.default,
    root: values.root ?? sandboxdOptions.root.default,
    metadataPrefix: values.metadataPrefix ?? sandboxdOptions.metadataPrefix.default,
    maxRequests: serve.server.maxRequests,
    logger: serve.server.logger,
    ...{ maxConnections, maxHeaderBytes, headersTimeout, keepAliveTimeout },
  }
}

function serverPlan(values: ServerValues): ServerPlan {
  if (values.authenticated && values.token !== undefined)
    throw new OptionError('INVALID_OPTION', 'token and authenticated exclude each other')
  return {
    isAuthenticated: values.authenticated ?? createServerOptions.authenticated.default,
    token: values.token,
    allowedOrigins: values.allowedOrigins ?? [],
    maxBodyBytes: values.maxBodyBytes ?? serverOptions.maxBodyBytes.default,
    maxRequests: values.maxRequests ?? serverOptions.maxRequests.default,
    heartbeat: values.heartbeat ?? serverOptions.heartbeat.default,
    logger: values.logger,
  }
}
