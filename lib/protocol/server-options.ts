/** The options of a server. */

import { type Kind, type OptionValues, option } from '../options/option.js'
import { filePath } from '../options/paths.js'
import { readGroup } from '../options/read.js'
import { hostName, origins, serverToken, variablePrefix } from '../options/server-values.js'
import { logger as readLogger } from '../options/values.js'
import type { Logger } from '../public/index.js'
import { bytes, count, directory, flag, milliseconds, pause } from './kinds.js'

const token: Kind<string> = {
  read: serverToken,
  bounds: 'at least 16 characters of printable ASCII without blanks',
}
const originList: Kind<string[]> = { read: origins, bounds: "origins like 'https://example.com'" }
const logger: Kind<Logger> = { read: readLogger, bounds: 'an object with debug, info, warn and error' }
const host: Kind<string> = { read: hostName, bounds: 'a host name or an address' }
const prefix: Kind<string> = { read: variablePrefix, bounds: 'the beginning of a name of a variable' }
const file: Kind<string> = { read: filePath, bounds: 'a path' }

/** Of `createServer`. */
export const serverOptions = {
  token: option(token, {
    doc: 'What requests must have as `Authorization: Bearer <token>`.',
    otherwise: 'none: only requests from this machine are answered',
  }),
  allowedOrigins: option(originList, { doc: 'Origins of pages that may call.', otherwise: 'none' }),
  maxBodyBytes: option(bytes, { doc: 'The largest body of a request.', default: 16_777_216 }),
  maxRequests: option(count(1, 1_000_000), {
    doc: 'Requests at a time, streams included; more are answered with 503.',
    default: 1024,
  }),
  heartbeat: option(pause, {
    doc: 'Time after which a silent response shows that it is alive.',
    default: 15_000,
  }),
  logger: option(logger, {
    doc: 'Receives one line per request, and the reasons of internal errors.',
    otherwise: 'none',
  }),
}

/** Of `sandboxd`. */
export const sandboxdOptions = {
  grpcPort: option(count(0, 65_535), {
    doc: 'The port of the gRPC service; 0 is any that is free.',
    default: 9090,
  }),
  restPort: option(count(0, 65_535), {
    doc: 'The port of the REST API; 0 is any that is free.',
    default: 8080,
  }),
  host: option(host, {
    doc: 'Where both listen. sandboxd has no authentication, whatever the host.',
    otherwise: 'the `host` of `serve`',
  }),
  root: option(directory, {
    doc: 'The directory that paths and working directories do not leave. It is made if it is missing.',
    default: '/workspace',
  }),
  metadataPrefix: option(prefix, {
    doc: 'How the names of variables begin that `GET /v1/metadata` shows.',
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
    doc: 'Where to listen. Any host but a loopback one needs a token.',
    default: '127.0.0.1',
  }),
  port: option(count(0, 65_535), { doc: 'The port; 0 is any that is free.', default: 4747 }),
  sandboxd: option(sandboxd, {
    doc: "Also serves the runtime API of Kubernetes' agent-sandbox.",
    otherwise: 'none',
  }),
  tokenFile: option(file, { doc: 'A file that holds the token. Excludes `token`.', otherwise: 'none' }),
  maxHeaderBytes: option(count(1024, 1024 * 1024, 'bytes'), {
    doc: "The most bytes of a request's headers; more are answered with 431.",
    default: 16_384,
  }),
  maxConnections: option(count(1, 1_000_000), {
    doc: 'Connections at a time; further ones are closed immediately.',
    default: 2048,
  }),
  headersTimeout: option(pause, {
    doc: 'Time in which the headers of a request must arrive.',
    default: 10_000,
  }),
  requestTimeout: option(pause, { doc: 'Time in which all of a request must arrive.', default: 60_000 }),
  keepAliveTimeout: option(pause, {
    doc: 'Time that a connection may be idle between two requests.',
    default: 5000,
  }),
  shutdownTimeout: option(milliseconds, {
    doc: 'Time that the end of the server may take, before connections are cut.',
    default: 10_000,
  }),
  handleSignals: option(flag, {
    doc: 'SIGTERM and SIGINT close the server, destroy the sandbox and end this process.',
    default: true,
  }),
}
