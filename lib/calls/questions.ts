/** Questions: whether programs may connect to a host that the rules do not name. */

import { oneOf } from '../schema/constructors.js'
import { date, reply, text } from '../schema/reply.js'

/** A connection that waits for an answer. See `network.ask` of {@link IsolationRules}. */
export interface Question {
  /** Unique in its sandbox. */
  id: string
  /** The session whose program wants to connect. */
  sessionId: string
  /** Host and port, like 'example.com:443'. */
  target: string
  askedAt: Date
  /** When the connection is refused without an answer. */
  expiresAt: Date
}

export const question = reply<Question>(
  { id: text, sessionId: text, target: text, askedAt: date, expiresAt: date },
  'Question',
)

/**
 * An answer, for all connections of the session to the target:
 *
 * - 'once': allowed until the running command has ended; between two commands, until the next one begins
 * - 'session': allowed as long as the session exists, except after a rollback
 * - 'deny': refused, without further questions until the running command has ended
 */
export type Answer = 'once' | 'session' | 'deny'

export const ANSWERS: readonly Answer[] = ['once', 'session', 'deny']

export const answer = oneOf(ANSWERS)
