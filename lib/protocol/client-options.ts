/** The options of a client. */

import type { Logger } from '../public/index.js'
import { clientToken, requestHeaders, serverUrl, tokenHeaderName } from '../schema/client-values.js'
import { flag, milliseconds, oneOf } from '../schema/kinds.js'
import { type Kind, option } from '../schema/option.js'
import { callback as readCallback, logger as readLogger } from '../schema/values.js'
import { TOKEN_HEADER } from './headers.js'

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
    doc: 'The header that carries the token. Change it when a proxy consumes `authorization`.',
    default: 'authorization',
  }),
  headers: option(headers, {
    doc: 'Headers to add to every request. An `authorization` header here replaces the token.',
    otherwise: 'none',
  }),
  fetch: option(fetchFunction, {
    doc: 'The function that sends requests.',
    otherwise: "the runtime's `fetch`",
  }),
  requestTimeout: option(milliseconds, {
    doc: 'Time limit of requests that neither stream nor wait; 0 = none.',
    default: 30_000,
  }),
  reconnectTimeout: option(milliseconds, {
    doc: 'How long the stream of a process or job tries to reconnect after its connection breaks.',
    default: 30_000,
  }),
  resume: option(flag, {
    doc: 'Calls survive broken connections. The client repeats a call until it receives the reply; the server performs each call once.',
    default: false,
  }),
  logger: option(logger, {
    doc: 'Receives callback errors that cannot be reported otherwise.',
    otherwise: 'none',
  }),
}
