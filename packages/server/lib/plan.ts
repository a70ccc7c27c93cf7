/**
 * The options of createServer and serve.
 */
import { kinds, OptionError } from 'nacre/internal'
import { createServerOptions, sandboxdOptions, serveOptions, type serverOptions } from './options.js'
import type { SandboxdPlan } from './sandboxd.js'

type ServerValues = kinds.CompleteValues<typeof serverOptions>

export interface ServerPlan extends Omit<ServerValues, 'allowedOrigins'> {
  /** Whether the caller of `fetch` has checked each request. */
  isAuthenticated: boolean
  /** Origins of pages that may call; none by default. */
  allowedOrigins: string[]
}

type ServeValues = kinds.CompleteValues<typeof serveOptions>

export interface ServePlan extends Omit<ServeValues, keyof ServerValues | 'sandboxd'> {
  server: ServerPlan
  sandboxd: SandboxdPlan | undefined
}

/** Checks the options of `createServer`. Throws OptionError. */
export function planServer(options: unknown): ServerPlan {
  const { authenticated, ...values } = kinds.readWithDefaults(createServerOptions, options, 'createServer')
  if (authenticated && values.token !== undefined)
    throw new OptionError('INVALID_OPTION', 'token and authenticated exclude each other')
  return serverPlan(values, authenticated)
}

/** Checks the options of `serve`. Throws OptionError. */
export function planServe(options: unknown): ServePlan {
  const values = kinds.readWithDefaults(serveOptions, options, 'serve')
  if (values.token !== undefined && values.tokenFile !== undefined)
    throw new OptionError('INVALID_OPTION', 'token and tokenFile exclude each other')
  if (values.console && values.forwardPorts)
    throw new OptionError(
      'INVALID_OPTION',
      'console and forwardPorts exclude each other: pages of forwarded ports could read the token that the console asks for; ' +
        'serve the same sandbox a second time, on another port, with one of them',
    )
  return {
    ...values,
    server: serverPlan(values, false),
    sandboxd: values.sandboxd && planSandboxd(values.sandboxd, values),
  }
}

function planSandboxd(given: kinds.OptionValues<typeof sandboxdOptions>, serve: ServeValues): SandboxdPlan {
  const values = kinds.withDefaults(sandboxdOptions, given)
  const { maxConnections, maxHeaderBytes, headersTimeout, keepAliveTimeout, maxRequests, logger } = serve
  const ports = [values.grpcPort, values.restPort, serve.port].filter((port) => port !== 0)
  if (new Set(ports).size < ports.length)
    throw new OptionError('INVALID_OPTION', 'port, sandboxd.grpcPort and sandboxd.restPort must differ')
  return {
    ...values,
    ...{ maxConnections, maxHeaderBytes, headersTimeout, keepAliveTimeout, maxRequests, logger },
  }
}

function serverPlan(values: ServerValues, isAuthenticated: boolean): ServerPlan {
  const { token, allowedOrigins = [], maxBodyBytes, maxRequests, heartbeat, logger } = values
  return { token, allowedOrigins, maxBodyBytes, maxRequests, heartbeat, logger, isAuthenticated }
}
