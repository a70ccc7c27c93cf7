/** The options of a client. */

import { headers, serverUrl, token, tokenHeader } from '../schema/http.js'
import { option } from '../schema/kind.js'
import { milliseconds } from '../schema/numbers.js'
import { callback, flag, logger } from '../schema/values.js'

/** Of `new SandboxClient`. */
export const clientOptions = {
  url: option(serverUrl, { doc: 'URL of the server.' }),
  token: option(token, { doc: "The server's token.", otherwise: 'none' }),
  tokenHeader: option(tokenHeader, {
    doc: 'The header that carries the token. Change it when a proxy consumes `authorization`.',
    default: 'authorization',
  }),
  headers: option(headers, {
    doc: 'Headers to add to every request. An `authorization` header here replaces the token.',
    otherwise: 'none',
  }),
  fetch: option(
    { ...callback, bounds: 'a function like fetch' },
    {
      doc: 'The function that sends requests.',
      otherwise: "the runtime's `fetch`",
    },
  ),
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
