/** Questions: whether programs may connect to a host that the rules do not name. */

import { oneOf } from '../schema/constructors.js'
import { date, optional, reply, text } from '../schema/reply.js'

/** A request to a host, without its query. */
export interface RequestLine {
  /** As it was sent, like 'POST'. */
  method: string
  /** Like '/repos/me/x/pulls'; for a denial, at most 1000 characters of it. */
  path: string
}

export const requestLine = reply<RequestLine>({ method: text, path: text })

/**
 * A question about a connection, or about a request to a host with rules. It stays open until `expiresAt`, also if the program
 * gives up. See {@link NetworkRules.ask}.
 */
export interface Question {
  /** Unique in its sandbox. */
  id: string
  /** The session whose program wants to connect. */
  sessionId: string
  /** Host and port, like 'example.com:443'. */
  target: string
  /** The request, if a rule of {@link NetworkRules.requests} asks. */
  request?: RequestLine | undefined
  askedAt: Date
  /** Until when it can be answered. */
  expiresAt: Date
}

export const question = reply<Question>(
  { id: text, sessionId: text, target: text, request: optional(requestLine), askedAt: date, expiresAt: date },
  'Question',
)

/**
 * An answer, for all connections of the session to the target, or for all requests with this method and path:
 *
 * - 'once': allowed until the command has ended; if the program has given up, for the next command that connects
 * - 'session': allowed as long as the session exists, except after a rollback
 * - 'deny': refused; asked again after the command has ended, or after 5 minutes
 */
export type Answer = 'once' | 'session' | 'deny'

export const ANSWERS: readonly Answer[] = ['once', 'session', 'deny']

export const answer = oneOf(ANSWERS)
