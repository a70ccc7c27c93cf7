/**
 * The order of a client's calls on one session.
 *
 * Each request has a connection of its own and can overtake others. So the next command of a session is sent only when
 * the server has the one before: when it has announced the run, or has replied. Sessions do not wait for each other.
 *
 * A deleted session takes its waiting calls with it. They are rejected before the deletion is sent, so none of them can
 * arrive later and run in the next session of that id. A rollback does the same with the waiting calls of all sessions.
 */
import { orAborted } from '../../base/abort.js'
import { deferred } from '../../base/deferred.js'
import { engineError, type SandboxError } from '../../base/errors.js'

/** A call's place in the order. */
export interface Slot {
  /**
   * Resolves when it is this call's turn; undefined when there is nothing to wait for. Rejects with SESSION_DESTROYED when
   * the session is deleted first, and with ROLLED_BACK after a rollback.
   */
  begins: Promise<void> | undefined
  /** Lets the next call be sent: the server has this one, or never will. May be called twice, and before the call has its turn. */
  end: () => void
  /** Rejects the calls that wait, with the code of this error: the session has been deleted, or the sandbox rolled back. */
  destroy: (reason: SandboxError) => void
}

/** The calls on a session from its creation to its deletion. */
interface Queue {
  last: Promise<void> | undefined
  destroyed: AbortController
}

export class SessionQueues {
  readonly #queues = new Map<string, Queue>()

  /** The slot after all earlier ones of this session. */
  take(sessionId: string): Slot {
    const queue = this.#queues.get(sessionId) ?? { last: undefined, destroyed: new AbortController() }
    this.#queues.set(sessionId, queue)
    const before = queue.last
    const { promise: ended, resolve: end } = deferred()
    const last: Promise<void> = Promise.all([before, ended]).then(() => {
      if (queue.last === last && this.#queues.get(sessionId) === queue) this.#queues.delete(sessionId)
    })
    queue.last = last
    const destroy = (reason: SandboxError) => this.#destroy(sessionId, queue, reason)
    return { begins: before && turnOf(before, queue.destroyed.signal), end, destroy }
  }

  /** Rejects the calls that wait for this session. Later ones wait for the end of the returned slot. */
  replace(sessionId: string): Slot {
    const queue = this.#queues.get(sessionId)
    const deleted = () => engineError('SESSION_DESTROYED', `session '${sessionId}' was deleted`)
    if (queue !== undefined) this.#destroy(sessionId, queue, deleted())
    return this.take(sessionId)
  }

  /** Rejects the calls that wait for any session, with the code of this error. */
  destroyAll(reason: SandboxError): void {
    for (const [sessionId, queue] of [...this.#queues]) this.#destroy(sessionId, queue, reason)
  }

  #destroy(sessionId: string, queue: Queue, reason: SandboxError): void {
    if (this.#queues.get(sessionId) === queue) this.#queues.delete(sessionId)
    queue.destroyed.abort(reason)
  }
}

function turnOf(before: Promise<void>, destroyed: AbortSignal): Promise<void> {
  const begins = orAborted(before, destroyed).then(() => {
    if (!destroyed.aborted) return
    // Each call locates its own error.
    const { code, message } = destroyed.reason as SandboxError
    throw engineError(code, message)
  })
  begins.catch(() => {})
  return begins
}
