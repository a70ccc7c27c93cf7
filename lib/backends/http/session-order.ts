/**
 * The order of a client's calls on one session.
 *
 * Each request has a connection of its own and can overtake others. So the next command of a session is sent only when
 * the server has the one before: when it has announced the run, or has replied. Sessions do not wait for each other.
 *
 * A deleted session takes its waiting calls with it. They are rejected before the deletion is sent, so none of them can
 * arrive later and run in the next session of that id.
 */
import { orAborted } from '../../base/abort.js'
import { engineError } from '../../base/errors.js'

/** A call's place in the order. */
export interface Turn {
  /**
   * Resolves when it is this call's turn; undefined when there is nothing to wait for. Rejects with SESSION_DESTROYED when
   * the session is deleted first.
   */
  begins: Promise<void> | undefined
  /** Lets the next call be sent: the server has this one, or never will. May be called twice, and before the turn. */
  end: () => void
  /** Rejects the calls that wait: the server reports that the session has been deleted. */
  destroy: () => void
}

/** The calls on a session from its creation to its deletion. */
interface Queue {
  last: Promise<void> | undefined
  destroyed: AbortController
}

export class Turns {
  readonly #queues = new Map<string, Queue>()

  /** The turn after all earlier ones of this session. */
  take(sessionId: string): Turn {
    const queue = this.#queues.get(sessionId) ?? { last: undefined, destroyed: new AbortController() }
    this.#queues.set(sessionId, queue)
    const before = queue.last
    let end = () => {}
    const ended = new Promise<void>((resolve) => {
      end = resolve
    })
    const last: Promise<void> = Promise.all([before, ended]).then(() => {
      if (queue.last === last && this.#queues.get(sessionId) === queue) this.#queues.delete(sessionId)
    })
    queue.last = last
    const destroy = () => this.#destroy(sessionId, queue)
    return { begins: before && turnOf(before, queue.destroyed.signal, sessionId), end, destroy }
  }

  /** Rejects the calls that wait for this session. Later ones wait for the end of the returned turn. */
  replace(sessionId: string): Turn {
    const queue = this.#queues.get(sessionId)
    if (queue !== undefined) this.#destroy(sessionId, queue)
    return this.take(sessionId)
  }

  #destroy(sessionId: string, queue: Queue): void {
    if (this.#queues.get(sessionId) === queue) this.#queues.delete(sessionId)
    queue.destroyed.abort()
  }
}

function turnOf(before: Promise<void>, destroyed: AbortSignal, sessionId: string): Promise<void> {
  const begins = orAborted(before, destroyed).then(() => {
    if (destroyed.aborted) throw engineError('SESSION_DESTROYED', `session '${sessionId}' was deleted`)
  })
  begins.catch(() => {})
  return begins
}
