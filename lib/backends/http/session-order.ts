/**
 * The order of a client's calls on one session.
 *
 * Requests go over connections of their own and can overtake each other, so the next command of a session is sent when
 * the server has the one before: when its run is announced, or its reply is here. Other sessions are not waited for.
 */

/** A call's place in the order. */
export interface Turn {
  /** Settled when it is this call's turn; undefined when it is at once. */
  begins: Promise<void> | undefined
  /** The server has it, or never will: the next one may be sent. May be called again, and before the turn. */
  end: () => void
}

export class Turns {
  readonly #last = new Map<string, Promise<void>>()

  /** The turn after all that were taken before for this session. */
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
