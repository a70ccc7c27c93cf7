/** The options of a server. */

import type { Logger } from '../public/index.js'
import { bytes, count, directory, flag, milliseconds, pause } from '../schema/kinds.js'
import { type Kind, type OptionValues, option } from '../schema/option.js'
import { filePath } from '../schema/paths.js'
import { readGroup } from '../schema/read.js'
import { hostName, origins, serverToken, variablePrefix } from '../schema/server-values.js'
import { logger as readLogger } from '../schema/values.js'

const token: Kind<string> = {
  read: serverToken,
  bounds: 'at least 16 characters of printable ASCII without blanks',
}
const originList: Kind<string[]> = { read: origins, bounds: "origins like 'https://example.com'" }
const logger: Kind<Logger> = { read: readLogger, bounds: 'an object with debug, info, warn and error' }
const host: Kind<string> = { read: hostName, bounds: 'a host name or an address' }
const prefix: Kind<string> = { read: variablePrefix, bounds: 'a prefix of variable names' }
const file: Kind<string> = { read: filePath, bounds: 'a path' }

/** Of `createServer` and `serve`. */
export const serverOptions = {
  token: option(token, {
    doc: 'The token that requests must send as `Authorization: Bearer <token>`. Without one, every user of the machine can call the server.',
    otherwise: 'none: only requests from this machine are accepted',
  }),
  allowedOrigins: option(originList, {
    doc: 'Origins of web pages that may send requests.',
    otherwise: 'none',
  }),
  maxBodyBytes: option(bytes, { doc: 'Maximum size of a request body.', default: 16_777_216 }),
  maxRequests: option(count(1, 1_000_000), {
    doc: 'Maximum number of concurrent requests, including streams. Further requests get 503.',
    default: 1024,
  }),
  heartbeat: option(pause, {
    doc: 'Interval at which a silent response sends a sign of life.',
    default: 15_000,
  }),
  logger: option(logger, {
    doc: 'Receives one line per request, and the causes of internal errors.',
    otherwise: 'none',
  }),
}

/** Of `createServer`. */
export const createServerOptions = {
  ...serverOptions,
  authenticated: option(flag, {
    doc: 'States that the caller of `fetch` has authenticated each request. Excludes `token`.',
    default: false,
  }),
}

/** Of `sandboxd`. */
export const sandboxdOptions = {
  grpcPort: option(count(0, 65_535), {
    doc: 'Port of the gRPC service; 0 selects a free port.',
    default: 9090,
  }),
  restPort: option(count(0, 65_535), {
    doc: 'Port of the REST API; 0 selects a free port.',
    default: 8080,
  }),
  host: option(host, {
    doc: 'Address that both listen on. sandboxd has no authentication on any address.',
    default: '127.0.0.1',
  }),
  root: option(directory, {
    doc: 'Directory that confines all paths and working directories. It is created if it is missing.',
    default: '/workspace',
  }),
  metadataPrefix: option(prefix, {
    doc: 'Prefix of the environment variables that `GET /v1/metadata` shows.',
    default: 'SANDBOX_',
  }),
}

const sandboxd: Kind<OptionValues<typeof sandboxdOptions> | undefined> = {
  read: (value, name) => {
    if (typeof value === 'boolean') return value ? {} : undefined
    return readGroup(sandboxdOptions, value, name)
  },
  bounds: 'an object of its options, or true for their defaults',
}

/** Of `serve`. */
export const serveOptions = {
  ...serverOptions,
  host: option(host, {
    doc: 'Address to listen on. Any address other than loopback needs a token.',
    default: '127.0.0.1',
  }),
  port: option(count(0, 65_535), { doc: 'Port to listen on; 0 selects a free port.', default: 4747 }),
  sandboxd: option(sandboxd, {
    doc: "Also serves the runtime API of Kubernetes' agent-sandbox.",
    otherwise: 'none',
  }),
  tokenFile: option(file, { doc: 'File that holds the token. Excludes `token`.', otherwise: 'none' }),
  maxHeaderBytes: option(count(1024, 1024 * 1024, 'bytes'), {
    doc: 'Maximum size of the headers of a request. Larger headers get 431.',
    default: 16_384,
  }),
  maxConnections: option(count(1, 1_000_000), {
    doc: 'Maximum number of connections. Further connections are closed immediately.',
    default: 2048,
  }),
  headersTimeout: option(pause, {
    doc: 'Time limit for the headers of a request to arrive.',
    default: 10_000,
  }),
  requestTimeout: option(pause, { doc: 'Time limit for a whole request to arrive.', default: 60_000 }),
  keepAliveTimeout: option(pause, {
    doc: 'How long a connection may be idle between two requests.',
    default: 5000,
  }),
  shutdownTimeout: option(milliseconds, {
    doc: 'How long a shutdown may take before the server cuts connections.',
    default: 10_000,
  }),
  handleSignals: option(flag, {
    doc: 'On SIGTERM and SIGINT, closes the server, destroys the sandbox and ends this process.',
    default: true,
  }),
}
