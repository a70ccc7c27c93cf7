/**
 * The options of SandboxClient, with their defaults.
 */

import { clientOptions } from '../../calls/client.js'
import type { Logger } from '../../calls/index.js'
import type { TOKEN_HEADER } from '../../protocol/headers.js'
import { serverUrl } from '../../schema/http.js'
import { readArgument, readWithDefaults } from '../../schema/read.js'
import { DIRECT, type Route } from './route.js'
import { openSocket, socketProtocols } from './socket.js'

export interface ClientPlan {
  route: Route
  headers: Record<string, string>
  fetch: typeof fetch
  /** Whether calls survive broken connections. */
  resume: boolean
  /** Milliseconds; 0 = none. */
  requestTimeout: number
  /** Milliseconds. */
  reconnectTimeout: number
  logger: Logger | undefined
}

/** Checks the options of `new SandboxClient`. Throws OptionError. */
export function planClient(options: unknown): ClientPlan {
  const values = readWithDefaults(clientOptions, options, 'SandboxClient')
  const given = values.fetch as typeof fetch | undefined
  const { requestTimeout, reconnectTimeout, resume, logger } = values
  const url = values.url ?? readArgument(serverUrl.read, undefined, 'url')
  const protocols =
    given === undefined && values.headers === undefined ? socketProtocols(values.token) : undefined
  return {
    route: directRoute(url, protocols),
    headers: { ...tokenHeaders(values.token, values.tokenHeader), ...values.headers },
    // Browsers want it to be called as a function of the global object.
    fetch: given ?? ((input, init) => fetch(input, init)),
    ...{ resume, requestTimeout, reconnectTimeout, logger },
  }
}

/** The header that has the token. */
export function tokenHeaders(
  token: string | undefined,
  header: 'authorization' | typeof TOKEN_HEADER,
): Record<string, string> {
  if (token === undefined) return {}
  return { [header]: header === 'authorization' ? `Bearer ${token}` : token }
}

/** The way to a server that is always at the same place. */
function directRoute(url: string, protocols: string[] | undefined): Route {
  return {
    ...DIRECT,
    name: url,
    target: () => ({ url, headers: {} }),
    // The token is a subprotocol: not every runtime lets a WebSocket have headers.
    socket: (address) => protocols && openSocket(address, protocols),
  }
}
