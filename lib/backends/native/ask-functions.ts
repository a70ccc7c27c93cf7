/**
 * The functions of `network.ask`. The engine knows them by names, which it keeps with the rules of a session, also for a rollback:
 * so no session is ever judged by the function of another one.
 */

import { crypto, util } from '../../base/builtin.js'
import { report } from '../../base/report.js'
import type { NativeQuestion } from '../../boundary/index.js'
import type { Answer, Logger, Question } from '../../calls/index.js'
import { answer } from '../../calls/questions.js'
import type { GivenRules } from '../../schema/isolation-rules.js'
import type { Callback } from '../../schema/kind.js'

const names = new WeakMap<Callback, string>()

/** What no other function is called, in this program or another. */
export function nameOf(ask: Callback): string {
  const name = names.get(ask) ?? crypto().randomUUID()
  names.set(ask, name)
  return name
}

/** The function of these rules, if they have one. */
export function askFunction(rules: GivenRules | undefined): Callback | undefined {
  const network = rules?.network
  return typeof network === 'object' && typeof network.ask === 'function' ? network.ask : undefined
}

export class AskFunctions {
  readonly #logger: Logger | undefined
  readonly #functions: Map<string, Callback>

  constructor(logger: Logger | undefined, functions: ReadonlyMap<string, Callback> = new Map()) {
    this.#logger = logger
    this.#functions = new Map(functions)
  }

  /** Keeps a function, as long as the sandbox: a rollback may bring its session back. */
  add(ask: Callback | undefined): void {
    if (ask !== undefined) this.#functions.set(nameOf(ask), ask)
  }

  /** For a fork, which goes on with the same sessions. */
  copy(): AskFunctions {
    return new AskFunctions(this.#logger, this.#functions)
  }

  /** The answer of the function that the rules of the session have; undefined if they have none. Never rejects. */
  async answer(question: NativeQuestion): Promise<Answer | undefined> {
    const { answerer, target } = question
    if (answerer === undefined) return undefined
    try {
      const ask = this.#functions.get(answerer)
      if (ask === undefined) throw new Error('the function belongs to a program that has ended')
      return answer.read(await ask(questionOf(question)), 'the answer of isolation.network.ask')
    } catch (error) {
      report(this.#logger, 'error', `isolation.network.ask: ${target} is refused: ${util.inspect(error)}`)
      return 'deny'
    }
  }
}

export function questionOf({ answerer: _, askedAt, expiresAt, ...about }: NativeQuestion): Question {
  return { ...about, askedAt: new Date(askedAt), expiresAt: new Date(expiresAt) }
}
