/**
 * The table of pending calls of one sandbox: request id to listener.
 *
 * The addon's event callback holds only this table. A listener may hold the sandbox, but leaves the table when its call
 * ends. So an idle sandbox that the program drops can be collected, together with its handle.
 */

import { report } from '../../base/report.js'
import type { NativeEvent, NativeQuestion } from '../../boundary/index.js'
import type { Logger } from '../../calls/index.js'

/** Receives the events of one call. Must not throw: its caller is the addon. */
export type Listener = (event: NativeEvent) => void

/** Receives a call of a host command: the session of the caller, and the connection. */
export type OnCall = (sessionId: string, socket: number) => void

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
  readonly #onQuestion: (question: NativeQuestion) => void
  readonly #onCall: OnCall
  #lastId = 0

  /** `onQuestion` and `onCall` must neither throw nor hold the sandbox. */
  constructor(
    logger: Logger | undefined,
    onQuestion: (question: NativeQuestion) => void = () => {},
    onCall: OnCall = () => {},
  ) {
    this.#logger = logger
    this.#onQuestion = onQuestion
    this.#onCall = onCall
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
    if (event.kind === 'log') {
      report(this.#logger, event.level, event.message)
      return
    }
    if (event.kind === 'question') {
      this.#onQuestion(event.question)
      return
    }
    if (event.kind === 'called') {
      this.#onCall(event.sessionId, event.socket)
      return
    }
    const listener = this.#listeners.get(event.id)
    if (isLast(event)) this.#listeners.delete(event.id)
    listener?.(event)
  }
}
