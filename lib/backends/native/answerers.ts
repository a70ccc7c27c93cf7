/** The functions that answer questions about hosts: that of the sandbox, and those of its sessions. */

import { report } from '../../base/report.js'
import type { NativeQuestion } from '../../boundary/index.js'
import type { Answer, Logger, Question } from '../../calls/index.js'
import { answer } from '../../calls/questions.js'
import type { GivenRules } from '../../schema/isolation-rules.js'
import type { Callback } from '../../schema/kind.js'

export class Answerers {
  readonly #sandbox: Callback | undefined
  readonly #logger: Logger | undefined
  readonly #sessions: Map<string, Callback>

  constructor(
    sandbox: Callback | undefined,
    logger: Logger | undefined,
    sessions = new Map<string, Callback>(),
  ) {
    this.#sandbox = sandbox
    this.#logger = logger
    this.#sessions = sessions
  }

  /** Keeps the function of a new session, if its rules have one. */
  add(sessionId: string, rules: GivenRules | undefined): void {
    const own = answererOf(rules)
    if (own === undefined) this.#sessions.delete(sessionId)
    else this.#sessions.set(sessionId, own)
  }

  forget(sessionId: string): void {
    this.#sessions.delete(sessionId)
  }

  /** For a fork, which goes on with the same sessions. */
  copy(): Answerers {
    return new Answerers(this.#sandbox, this.#logger, new Map(this.#sessions))
  }

  /** The answer of the function of a session, or else of the sandbox; undefined if there is none. Never rejects. */
  async answer(question: Question): Promise<Answer | undefined> {
    const decide = this.#sessions.get(question.sessionId) ?? this.#sandbox
    if (decide === undefined) return undefined
    try {
      return answer.read(await decide(question), 'the answer of isolation.network.ask')
    } catch (error) {
      report(this.#logger, 'error', `isolation.network.ask: ${question.target} is refused: ${error}`)
      return 'deny'
    }
  }
}

/** The function of these rules, if they have one. */
export function answererOf(rules: GivenRules | undefined): Callback | undefined {
  const network = rules?.network
  return typeof network === 'object' && typeof network.ask === 'function' ? network.ask : undefined
}

export function questionOf({ id, sessionId, target, askedAt, expiresAt }: NativeQuestion): Question {
  return { id, sessionId, target, askedAt: new Date(askedAt), expiresAt: new Date(expiresAt) }
}
