/**
 * The functions of network rules. The engine knows them by names, which it keeps with the rules of a session, also for a rollback:
 * so no session ever uses the function of another one.
 */
import type { Duplex } from 'node:stream'
import { crypto, util } from '../../base/builtin.js'
import { invalidOption } from '../../base/errors.js'
import { report } from '../../base/report.js'
import type { NativeEvent, NativeQuestion } from '../../boundary/index.js'
import type { Answer, Logger, Question, RequestHandler } from '../../calls/index.js'
import { answer } from '../../calls/questions.js'
import { valueText } from '../../calls/secrets.js'
import { functionsOf, type GivenRules } from '../../schema/isolation-rules.js'
import type { Callback } from '../../schema/kind.js'
import { serveRequest } from './request-handlers.js'
import type { KnownSecrets } from './secrets.js'

const names = new WeakMap<Callback, string>()

/** What no other function is called, in this program or another. */
export function nameOf(callback: Callback): string {
  const name = names.get(callback) ?? crypto().randomUUID()
  names.set(callback, name)
  return name
}

export type FunctionEvent = Extract<NativeEvent, { kind: 'function' }>

export class RuleFunctions {
  readonly #logger: Logger | undefined
  readonly #functions: Map<string, Callback>

  constructor(logger: Logger | undefined, functions: ReadonlyMap<string, Callback> = new Map()) {
    this.#logger = logger
    this.#functions = new Map(functions)
  }

  /** Keeps the functions of rules as long as the sandbox: a rollback may bring their session back. */
  add(rules: GivenRules = {}): void {
    for (const [, one] of functionsOf(rules)) this.#functions.set(nameOf(one), one)
  }

  /** For a fork, which goes on with the same sessions. */
  copy(): RuleFunctions {
    return new RuleFunctions(this.#logger, this.#functions)
  }

  /** The answer of the function that the rules of the session have; undefined if they have none. Never rejects. */
  async answer(question: NativeQuestion): Promise<Answer | undefined> {
    const { answerer, target } = question
    if (answerer === undefined) return undefined
    try {
      return answer.read(
        await this.#find(answerer)(questionOf(question)),
        'the answer of isolation.network.ask',
      )
    } catch (error) {
      this.#report(`isolation.network.ask: ${target} is refused`, error)
      return 'deny'
    }
  }

  /**
   * Answers a request, or tells the value of a secret. Never rejects. `open` connects to what sends requests on; `known` gets the
   * value.
   */
  async serve(
    { name, sessionId, placeholder }: FunctionEvent,
    connection: Duplex,
    open: () => Duplex,
    known: KnownSecrets,
  ): Promise<void> {
    // A program that does not wait for its reply is no error.
    connection.on('error', () => {})
    if (placeholder === undefined) {
      const handler = this.#functions.get(name) as unknown as RequestHandler | undefined
      const failed = (host: string, error: unknown) =>
        this.#report(`isolation.network.handle['${host}']`, error)
      return serveRequest(connection, handler ?? (lost as RequestHandler), sessionId, open, failed)
    }
    try {
      const value = valueText.read(await this.#find(name)(undefined), 'the value')
      if (placeholder.includes(value) || value.includes(placeholder))
        throw invalidOption('the placeholder must have nothing of the value')
      known.add([{ value, placeholder }])
      connection.end(value)
    } catch (error) {
      this.#report('isolation.network.secrets: a function has no value', error)
      connection.destroy()
    }
  }

  #find(name: string): Callback {
    return this.#functions.get(name) ?? lost
  }

  #report(what: string, error: unknown): void {
    report(this.#logger, 'error', `${what}: ${util.inspect(error)}`)
  }
}

function lost(): unknown {
  throw new Error('the function belongs to a program that has ended')
}

export function questionOf({ answerer: _, askedAt, expiresAt, ...about }: NativeQuestion): Question {
  return { ...about, askedAt: new Date(askedAt), expiresAt: new Date(expiresAt) }
}
