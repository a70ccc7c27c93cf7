/** Functions of this program that answer the requests of commands. */

import { OptionError } from '../base/errors.js'
import type { Callback, Kind } from '../schema/kind.js'
import { readEntries } from '../schema/read.js'
import { origin } from '../schema/targets.js'
import { callback } from '../schema/values.js'

/** What a {@link RequestHandler} gets beside the request. */
export interface RequestContext {
  /** The session of the program that has sent the request. */
  sessionId: string
  /**
   * Sends a request to the host of the handler, within the rules and with the secrets of the session. Rejects with a TypeError for
   * another host, when the host cannot be reached, and after the end of the request that the handler answers.
   */
  forward(request: Request): Promise<Response>
}

/**
 * Answers a request. It has placeholders in place of secrets, and its `signal` is aborted when the program gives up. A function
 * that throws, or returns no Response, is a 500 for the program, and an error for the logger.
 */
export type RequestHandler = (request: Request, context: RequestContext) => Response | Promise<Response>

const MAX_HOSTS = 50

const host = origin()

/** Handlers by the hosts that they stand for. */
export const handlers: Kind<Record<string, RequestHandler>, Record<string, Callback>> = {
  read(given, name) {
    const rule = "must be an object of functions like { 'api.example.com': () => Response.json({}) }"
    const entries = readEntries(given, name, { rule })
    if (entries.length > MAX_HOSTS)
      throw new OptionError('INVALID_OPTION', `${name} must have at most ${MAX_HOSTS} hosts`)
    const checked: Record<string, Callback> = Object.create(null)
    for (const [key, one] of entries) {
      if (one === undefined) continue
      const known = host.read(key, `a key of ${name}`)
      if (known in checked)
        throw new OptionError('INVALID_OPTION', `${name} names the host ${known} twice: leave one out`)
      checked[known] = callback.read(one, `${name}['${key}']`)
    }
    return checked
  },
  bounds: `at most ${MAX_HOSTS} hosts with functions`,
}
