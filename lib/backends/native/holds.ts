/**
 * Holds: one caller alone uses a session or writes to a process. They are kept here and not in the engine, since every call
 * of another caller comes through here, also those over HTTP.
 */
import { crypto } from '../../base/builtin.js'
import { deferred } from '../../base/deferred.js'
import { engineError } from '../../base/errors.js'
import type { HandBack } from '../../calls/index.js'
import type { HoldBackend } from '../../sandbox/backend.js'

interface OwnedHold extends HoldBackend {
  owner: string
  end(): void
}

/** What can be held: a session or a process. */
export class Holdable {
  /** For messages. */
  readonly #name: string
  #hold: OwnedHold | undefined
  /** The last note of an owner. */
  handedBack: HandBack | null = null

  constructor(name: string) {
    this.#name = name
  }

  /** The owner of the hold; null without one. */
  get owner(): string | null {
    return this.#hold?.owner ?? null
  }

  /** Throws HELD. */
  take(owner: string): HoldBackend {
    this.require(undefined)
    const { promise: ended, resolve } = deferred()
    const end = () => {
      if (this.#hold === hold) this.#hold = undefined
      resolve()
    }
    const release = async (note: string | undefined) => {
      if (this.#hold === hold && note !== undefined) this.handedBack = { owner, note, time: new Date() }
      end()
    }
    const hold = { id: crypto().randomUUID(), owner, ended, end, release }
    this.#hold = hold
    return hold
  }

  /** Throws HELD unless the caller may use it. `id`: of the caller's hold. */
  require(id: string | undefined): void {
    if (this.#hold?.id === id) return
    if (this.#hold !== undefined)
      throw engineError(
        'HELD',
        `${this.#name} is held by ${JSON.stringify(this.#hold.owner)}: try again when it is released`,
      )
    throw engineError('HELD', `your hold on ${this.#name} has ended: hold it again, or go on without a hold`)
  }

  /** Ends the hold, if there is one. */
  end(): void {
    this.#hold?.end()
  }
}

/** The sessions of a sandbox that are or were held, by id. */
export class SessionHolds {
  readonly #sessions = new Map<string, Holdable>()

  /** What can be held of a session that exists. */
  of(sessionId: string): Holdable {
    const session = this.#sessions.get(sessionId) ?? new Holdable(nameOf(sessionId))
    this.#sessions.set(sessionId, session)
    return session
  }

  /** The owner of the hold on a session; null without one. */
  owner(sessionId: string): string | null {
    return this.#sessions.get(sessionId)?.owner ?? null
  }

  /** Throws HELD unless the caller may use the session. `id`: of the caller's hold. */
  require(sessionId: string, id: string | undefined): void {
    const session = this.#sessions.get(sessionId)
    if (session !== undefined) session.require(id)
    else if (id !== undefined) new Holdable(nameOf(sessionId)).require(id)
  }

  /** Ends the hold on a session that ends. */
  end(sessionId: string): void {
    this.#sessions.get(sessionId)?.end()
    this.#sessions.delete(sessionId)
  }

  /** Ends all holds, with the sandbox. */
  endAll(): void {
    for (const sessionId of [...this.#sessions.keys()]) this.end(sessionId)
  }
}

function nameOf(sessionId: string): string {
  return `session '${sessionId}'`
}
