/** The options of `@nacre/server`. */

import {
  bytes,
  type Call,
  count,
  flag,
  logger,
  milliseconds,
  object,
  positiveMilliseconds,
  table,
} from 'nacre/internal'
import {
  directory,
  filePath,
  hostName,
  origins,
  serverToken,
  switchable,
  variablePrefix,
} from 'nacre/internal/server'
import type { CreateServerOptions, SandboxdOptions, ServeOptions, ServerOptions } from './public.js'

/** Of `createServer` and `serve`. */
export const serverOptions = table<ServerOptions>()({
  token: serverToken,
  allowedOrigins: origins,
  maxBodyBytes: { ...bytes, default: 16_777_216 },
  maxRequests: { ...count(1, 1_000_000), default: 1024 },
  heartbeat: { ...positiveMilliseconds, default: 15_000 },
  logger,
})

export const createServerOptions = table<CreateServerOptions>()({
  ...serverOptions,
  authenticated: { ...flag, default: false },
})

export const sandboxdOptions = table<SandboxdOptions>()({
  grpcPort: { ...count(0, 65_535), default: 9090 },
  restPort: { ...count(0, 65_535), default: 8080 },
  host: { ...hostName, default: '127.0.0.1' },
  root: { ...directory, default: '/workspace' },
  metadataPrefix: { ...variablePrefix, default: 'SANDBOX_' },
})

export const serveOptions = table<ServeOptions>()({
  ...serverOptions,
  host: { ...hostName, default: '127.0.0.1' },
  port: { ...count(0, 65_535), default: 4747 },
  console: { ...flag, default: false },
  recordings: filePath,
  forwardPorts: { ...flag, default: false },
  sandboxd: switchable(object(sandboxdOptions), {}, 'an object of its options, or true for their defaults'),
  tokenFile: filePath,
  maxHeaderBytes: { ...count(1024, 1024 * 1024, 'bytes'), default: 16_384 },
  maxConnections: { ...count(1, 1_000_000), default: 2048 },
  headersTimeout: { ...positiveMilliseconds, default: 10_000 },
  requestTimeout: { ...positiveMilliseconds, default: 60_000 },
  keepAliveTimeout: { ...positiveMilliseconds, default: 5000 },
  shutdownTimeout: { ...milliseconds, default: 10_000 },
})

/** For the docs. */
export const calls: readonly Call[] = [
  { name: 'createServer', table: createServerOptions, local: true },
  { name: 'serve', table: serveOptions, local: true },
  { name: 'sandboxd of serve', table: sandboxdOptions, local: true },
]
