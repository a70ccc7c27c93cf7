/**
 * The options of SandboxClient, with their defaults.
 */

import { serverUrl } from '../../options/client-values.js'
import { readArgument, readOptions } from '../../options/read.js'
import { clientOptions } from '../../protocol/client-options.js'
import type { Logger } from '../../public/index.js'
import { socketProtocols } from './socket.js'

export interface ClientPlan {
  /** Without a slash at the end. */
  url: string
  headers: Record<string, string>
  fetch: typeof fetch
  /** The subprotocols of WebSockets; undefined where requests must be used instead. */
  protocols: string[] | undefined
  /** Milliseconds; 0 = none. */
  requestTimeout: number
  /** Milliseconds. */
  reconnectTimeout: number
  logger: Logger | undefined
}

/** Checks the options of `new SandboxClient`. Throws OptionError. */
export function planClient(options: unknown): ClientPlan {
  const values = readOptions(clientOptions, options, 'SandboxClient')
  const given = values.fetch as typeof fetch | undefined
  const { requestTimeout, reconnectTimeout } = clientOptions
  return {
    url: values.url ?? readArgument(serverUrl, undefined, 'url'),
    headers: {
      ...(values.token !== undefined && { authorization: `Bearer ${values.token}` }),
      ...values.headers,
    },
    // Browsers want it to be called as a function of the global object.
    fetch: given ?? ((input, init) => fetch(input, init)),
    protocols:
      given === undefined && values.headers === undefined ? socketProtocols(values.token) : undefined,
    requestTimeout: values.requestTimeout ?? requestTimeout.default,
    reconnectTimeout: values.reconnectTimeout ?? reconnectTimeout.default,
    logger: values.logger,
  }
}
