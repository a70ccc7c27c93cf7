/** Questions: whether programs may connect to a host that the rules do not name. */

import { oneOf } from '../schema/constructors.js'
import { date, reply, text } from '../schema/reply.js'

/** A question about a connection. It stays open until `expiresAt`, also if the program gives up. See {@link NetworkRules.ask}. */
export interface Question {
  /** Unique in its sandbox. */
  id: string
  /** The session whose program wants to connect. */
  sessionId: string
  /** Host and port, like 'example.com:443'. */
  target: string
  askedAt: Date
  /** Until when it can be answered. */
  expiresAt: Date
}

export const question = reply<Question>(
  { id: text, sessionId: text, target: text, askedAt: date, expiresAt: date },
  'Question',
)

/**
 * An answer, for all connections of the session to the target:
 *
 * - 'once': allowed until the command has ended; if the program has given up, for the next command that connects
 * - 'session': allowed as long as the session exists, except after a rollback
 * - 'deny': refused; asked again after the command has ended, or after 5 minutes
 */
export type Answer = 'once' | 'session' | 'deny'

export const ANSWERS: readonly Answer[] = ['once', 'session', 'deny']

export const answer = oneOf(ANSWERS)
