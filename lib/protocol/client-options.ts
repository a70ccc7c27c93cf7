/** The options of a client. */

import { clientToken, requestHeaders, serverUrl, tokenHeaderName } from '../options/client-values.js'
import { type Kind, option } from '../options/option.js'
import { callback as readCallback, logger as readLogger } from '../options/values.js'
import type { Logger } from '../public/index.js'
import { TOKEN_HEADER } from './headers.js'
import { flag, milliseconds, oneOf } from './kinds.js'

const url: Kind<string> = { read: serverUrl, bounds: 'an http: or https: URL' }
const token: Kind<string> = { read: clientToken, bounds: 'printable ASCII without blanks' }
const tokenHeader = oneOf(tokenHeaderName, 'authorization', TOKEN_HEADER)
const headers: Kind<Record<string, string>> = { read: requestHeaders, bounds: 'strings by name' }
const fetchFunction: Kind<(...parameters: unknown[]) => unknown> = {
  read: readCallback,
  bounds: 'a function like fetch',
}
const logger: Kind<Logger> = { read: readLogger, bounds: 'an object with debug, info, warn and error' }

/** Of `new SandboxClient`. */
export const clientOptions = {
  url: option(url, { doc: 'URL of the server.' }),
  token: option(token, { doc: "The server's token.", otherwise: 'none' }),
  tokenHeader: option(tokenHeader, {
    doc: 'The header that has the token. Some proxies keep `authorization` for themselves.',
    default: 'authorization',
  }),
  headers: option(headers, {
    doc: "Headers of every request. An `authorization` among them replaces the token's.",
    otherwise: 'none',
  }),
  fetch: option(fetchFunction, { doc: 'Makes the requests.', otherwise: "the runtime's `fetch`" }),
  requestTimeout: option(milliseconds, {
    doc: 'Time in which the server must answer a request that neither streams nor waits; 0 = none.',
    default: 30_000,
  }),
  reconnectTimeout: option(milliseconds, {
    doc: 'Time in which a stream of a process or a job tries to go on after its connection broke.',
    default: 30_000,
  }),
  resume: option(flag, {
    doc: 'Calls survive broken connections: they are repeated until the reply is here, and the server performs each once.',
    default: false,
  }),
  logger: option(logger, {
    doc: 'Receives errors of callbacks that cannot be reported otherwise.',
    otherwise: 'none',
  }),
}
