/** The options of a client. */

import type { ClientOptions } from '../calls/client.js'
import { headers, serverUrl, token, tokenHeader } from '../schema/http.js'
import { table } from '../schema/kind.js'
import { milliseconds } from '../schema/numbers.js'
import { callback, flag, logger } from '../schema/values.js'

/** Of `new SandboxClient`. */
export const clientOptions = table<ClientOptions>()({
  url: serverUrl,
  token,
  tokenHeader: { ...tokenHeader, default: 'authorization' },
  headers,
  fetch: { ...callback, bounds: 'a function like fetch' },
  requestTimeout: { ...milliseconds, default: 30_000 },
  reconnectTimeout: { ...milliseconds, default: 30_000 },
  resume: { ...flag, default: false },
  logger,
})
