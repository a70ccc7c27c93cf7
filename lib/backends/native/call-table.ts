/**
 * The table of pending calls of one sandbox: request id to listener.
 *
 * The addon's event callback holds only this table. A listener may hold the sandbox, but leaves the table when its call
 * ends. So an idle sandbox that the program drops can be collected, together with its handle.
 */

import { ownOnly } from '../../base/own.js'
import { report } from '../../base/report.js'
import type { NativeEvent, NativeQuestion } from '../../boundary/index.js'
import type { Logger } from '../../calls/index.js'

/** Receives the events of one call. Must not throw: its caller is the addon. */
export type Listener = (event: NativeEvent) => void

/** Receives what belongs to no call. It must neither throw nor hold the sandbox. */
export interface Observer {
  question(question: NativeQuestion): void
  /** A call of a host command: the session of the caller, and the connection. */
  called(sessionId: string, socket: number): void
  /** A request needs a function of network rules. */
  function(event: Extract<NativeEvent, { kind: 'function' }>): void
  /** A request of a traced command begins or has ended. */
  request(event: Extract<NativeEvent, { kind: 'request' | 'reply' }>): void
  /** A session has ended, or its shell has exited without `surviveExit`. */
  ended(sessionId: string): void
}

/** Ids are 1 to 2^32-1, since they cross the boundary as u32. */
const MAX_ID = 0xffff_ffff

const FINAL_KINDS = new Set<NativeEvent['kind']>(['result', 'done', 'error'])

/** Whether this is the last event of its call. */
export function isLast(event: NativeEvent): boolean {
  return FINAL_KINDS.has(event.kind)
}

export class CallTable {
  readonly #listeners = new Map<number, Listener>()
  readonly #logger: Logger | undefined
  readonly #observer: Observer | undefined
  #lastId = 0

  constructor(logger: Logger | undefined, observer?: Observer) {
    this.#logger = logger
    this.#observer = observer
  }

  /** Number of pending calls. */
  get size(): number {
    return this.#listeners.size
  }

  /** Adds a call and returns its id, unique while it is pending. */
  add(listener: Listener): number {
    do {
      this.#lastId = this.#lastId === MAX_ID ? 1 : this.#lastId + 1
    } while (this.#listeners.has(this.#lastId))
    this.#listeners.set(this.#lastId, listener)
    return this.#lastId
  }

  /** Removes a call that could not be sent. */
  remove(id: number): void {
    this.#listeners.delete(id)
  }

  /** The addon's event callback. A call leaves the table before its listener sees the last event. */
  readonly dispatch = (event: NativeEvent): void => {
    switch (event.kind) {
      case 'log':
        report(this.#logger, event.level, event.message)
        return
      case 'question':
        this.#observer?.question(event.question)
        return
      case 'called':
        this.#observer?.called(event.sessionId, event.socket)
        return
      case 'function':
        this.#observer?.function(event)
        return
      case 'request':
      case 'reply':
        this.#observer?.request(event)
        return
      case 'ended':
        this.#observer?.ended(event.sessionId)
        return
      default:
    }
    const listener = this.#listeners.get(event.id)
    if (isLast(event)) this.#listeners.delete(event.id)
    listener?.(event.kind === 'error' ? ownOnly(event) : event)
  }
}
