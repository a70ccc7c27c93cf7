/** The options of a server. */

import { object } from '../schema/constructors.js'
import { hostName, origins, serverToken, variablePrefix } from '../schema/http.js'
import { option } from '../schema/kind.js'
import { bytes, count, milliseconds, pause } from '../schema/numbers.js'
import { directory, filePath } from '../schema/paths.js'
import { flag, logger, switchable } from '../schema/values.js'

/** Of `createServer` and `serve`. */
export const serverOptions = {
  token: option(serverToken, {
    doc: 'The token that requests must send as `Authorization: Bearer <token>`. Without one, every user of the machine can call the server.',
    otherwise: 'none: only requests from this machine are accepted',
  }),
  allowedOrigins: option(origins, {
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
  host: option(hostName, {
    doc: 'Address that both listen on. sandboxd has no authentication on any address.',
    default: '127.0.0.1',
  }),
  root: option(directory, {
    doc: 'Directory that confines all paths and working directories. It is created if it is missing.',
    default: '/workspace',
  }),
  metadataPrefix: option(variablePrefix, {
    doc: 'Prefix of the environment variables that `GET /v1/metadata` shows.',
    default: 'SANDBOX_',
  }),
}

/** Of `serve`. */
export const serveOptions = {
  ...serverOptions,
  host: option(hostName, {
    doc: 'Address to listen on. Any address other than loopback needs a token.',
    default: '127.0.0.1',
  }),
  port: option(count(0, 65_535), { doc: 'Port to listen on; 0 selects a free port.', default: 4747 }),
  sandboxd: option(
    switchable(object(sandboxdOptions), {}, 'an object of its options, or true for their defaults'),
    {
      doc: "Also serves the runtime API of Kubernetes' agent-sandbox.",
      otherwise: 'none',
    },
  ),
  tokenFile: option(filePath, { doc: 'File that holds the token. Excludes `token`.', otherwise: 'none' }),
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
