/** Functions of this program that answer the requests of commands. */

import type { Callback, Kind } from '../schema/kind.js'
import { byHost } from '../schema/targets.js'
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

const handler: Kind<RequestHandler, Callback> = { read: callback.read, bounds: callback.bounds }

/** Handlers by the hosts that they stand for. */
export const handlers = byHost(handler, 'functions', '() => Response.json({})')
