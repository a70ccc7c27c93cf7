/**
 * The order of a client's calls on one session.
 *
 * Each request has a connection of its own and can overtake others. So the next command of a session is sent only when
 * the server has the one before: when it has announced the run, or has replied. Sessions do not wait for each other.
 */

/** A call's place in the order. */
export interface Turn {
  /** Resolves when it is this call's turn; undefined when there is nothing to wait for. */
  begins: Promise<void> | undefined
  /** Lets the next call be sent: the server has this one, or never will. May be called twice, and before the turn. */
  end: () => void
}

export class Turns {
  readonly #last = new Map<string, Promise<void>>()

  /** The turn after all earlier ones of this session. */
  take(sessionId: string): Turn {
    const begins = this.#last.get(sessionId)
    let end = () => {}
    const ended = new Promise<void>((resolve) => {
      end = resolve
    })
    const last: Promise<void> = Promise.all([begins, ended]).then(() => {
      if (this.#last.get(sessionId) === last) this.#last.delete(sessionId)
    })
    this.#last.set(sessionId, last)
    return { begins, end }
  }
}
