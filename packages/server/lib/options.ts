/** The options of `@nacre/server`. */

import { type Call, kinds } from 'nacre/internal'

import type { CreateServerOptions, SandboxdOptions, ServeOptions, ServerOptions } from './public.js'

/** Of `createServer` and `serve`. */
export const serverOptions = kinds.table<ServerOptions>()({
  token: kinds.serverToken,
  allowedOrigins: kinds.origins,
  // Room for a message of 16 MiB to a process.
  maxBodyBytes: { ...kinds.bytes, default: 17_825_792 },
  maxRequests: { ...kinds.count(1, 1_000_000), default: 1024 },
  heartbeat: { ...kinds.positiveMilliseconds, default: 15_000 },
  logger: kinds.logger,
})

export const createServerOptions = kinds.table<CreateServerOptions>()({
  ...serverOptions,
  authenticated: { ...kinds.flag, default: false },
})

export const sandboxdOptions = kinds.table<SandboxdOptions>()({
  grpcPort: { ...kinds.count(0, 65_535), default: 9090 },
  restPort: { ...kinds.count(0, 65_535), default: 8080 },
  host: { ...kinds.hostName, default: '127.0.0.1' },
  root: { ...kinds.directory, default: '/workspace' },
  metadataPrefix: { ...kinds.variablePrefix, default: 'SANDBOX_' },
})

export const serveOptions = kinds.table<ServeOptions>()({
  ...serverOptions,
  host: { ...kinds.hostName, default: '127.0.0.1' },
  port: { ...kinds.count(0, 65_535), default: 4747 },
  console: { ...kinds.flag, default: false },
  recordings: kinds.filePath,
  forwardPorts: { ...kinds.flag, default: false },
  forks: { ...kinds.flag, default: false },
  sandboxd: kinds.switchable(
    kinds.object(sandboxdOptions),
    {},
    'an object of its options, or true for their defaults',
  ),
  tokenFile: kinds.filePath,
  maxHeaderBytes: { ...kinds.count(1024, 1024 * 1024, 'bytes'), default: 16_384 },
  maxConnections: { ...kinds.count(1, 1_000_000), default: 2048 },
  headersTimeout: { ...kinds.positiveMilliseconds, default: 10_000 },
  requestTimeout: { ...kinds.positiveMilliseconds, default: 60_000 },
  keepAliveTimeout: { ...kinds.positiveMilliseconds, default: 5000 },
  shutdownTimeout: { ...kinds.milliseconds, default: 10_000 },
})

/** For the docs. */
export const calls: readonly Call[] = [
  { name: 'createServer', table: createServerOptions, local: true },
  { name: 'serve', table: serveOptions, local: true },
  { name: 'sandboxd of serve', table: sandboxdOptions, local: true },
]
