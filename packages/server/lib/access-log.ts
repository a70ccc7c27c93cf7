/**
 * One line per request for the logger: method, path, status and milliseconds.
 *
 * The line has nothing else of a request. Headers, the query and the body can hold secrets; a path holds ids alone, except
 * that to a port: it can have a link, and what follows is the program's. Of a port with a host, the line has the host.
 */

import type { Context, MiddlewareHandler } from 'hono'
import type { Logger } from 'nacre'
import { clock, report } from 'nacre/internal'
import { isBelowLocalhost } from './forks/host.js'
import { whenSent } from './sent.js'
import { upgradeOf } from './upgrade.js'

/** The status of a request whose client disconnected before its response was complete, as proxies log it. */
const CLIENT_DISCONNECTED = 499

/** The status of a request that became a WebSocket. */
const SWITCHING_PROTOCOLS = 101

/** The path to a port, up to what is not logged. */
const PORT = /^(\/v1\/(?:sessions\/[^/]+\/)?ports\/\d+)[~/].*/

/** A path that is not a route's can be of any length. */
const MOST_CHARACTERS = 300

export function accessLog(logger: Logger): MiddlewareHandler {
  return async (c, next) => {
    const begun = clock.performance.now()
    whenSent(c, () => report(logger, 'info', accessLine(c, clock.performance.now() - begun)))
    await next()
  }
}

function statusOf(c: Context, isGone: boolean): number {
  if (upgradeOf(c.env)?.isAccepted) return SWITCHING_PROTOCOLS
  return isGone ? CLIENT_DISCONNECTED : c.res.status
}

function accessLine(c: Context, milliseconds: number): string {
  const { method, raw } = c.req
  // Still encoded: decoded, it could have line breaks and codes for a terminal.
  const { pathname, host } = new URL(raw.url)
  const path = isBelowLocalhost(host) ? `${host}/...` : pathname.replace(PORT, '$1/...')
  const status = statusOf(c, raw.signal.aborted)
  return `${method} ${path.slice(0, MOST_CHARACTERS)} ${status} ${Math.round(milliseconds)} ms`
}
