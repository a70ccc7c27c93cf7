/**
 * The messages of a process, in the order in which they arrive.
 */
import { abortable, onAbort, refuseAborted } from '../base/abort.js'
import { deferred } from '../base/deferred.js'
import { AbortError, engineError } from '../base/errors.js'
import { Steps } from '../base/steps.js'
import type { ReceivedMessage } from '../protocol/messages.js'
import type { ProcessBackend } from './backend.js'

const READING = 'reading messages'

/** What has arrived from a process and was not given to a loop. All loops of one object share it. */
class Inbox {
  readonly #backend: ProcessBackend
  #arrived: ReceivedMessage[] = []
  #given = 0
  #cursor = 0
  #isOver = false
  /** Settles after the earlier calls of `next`. */
  #earlier: Promise<unknown> = Promise.resolve()

  constructor(backend: ProcessBackend) {
    this.#backend = backend
  }

  next(signal: AbortSignal): Promise<ReceivedMessage | undefined> {
    const { promise, resolve } = deferred()
    const earlier = this.#earlier
    this.#earlier = promise
    return abortable(earlier, signal, READING)
      .then(() => this.#next(signal))
      .finally(() => void earlier.then(() => resolve()))
  }

  async #next(signal: AbortSignal): Promise<ReceivedMessage | undefined> {
    refuseAborted(signal, READING)
    while (this.#given === this.#arrived.length && !this.#isOver) await this.#receive(signal)
    const message = this.#arrived[this.#given]
    if (message === undefined) return undefined
    this.#given++
    this.#cursor = message.cursor
    const { error } = message
    if (error !== undefined) throw engineError(error.code, error.message)
    return message
  }

  async #receive(signal: AbortSignal): Promise<void> {
    const plan = { cursor: this.#cursor, follow: true, signal }
    const { messages, isOver } = await this.#backend.receive(plan)
    this.#arrived = messages
    this.#given = 0
    this.#isOver = isOver
  }

  /** Reports what was given, so that other programs do not get it. */
  async release(): Promise<void> {
    if (this.#isOver || this.#cursor === 0) return
    const plan = { cursor: this.#cursor, follow: false, signal: undefined }
    await this.#backend.receive(plan).catch(() => {})
  }
}

const inboxes = new WeakMap<ProcessBackend, Inbox>()

/** The messages of a process, from the first that was not given. */
export class MessageStream extends Steps<unknown> {
  readonly #inbox: Inbox
  readonly #stop = new AbortController()
  readonly #unwatch: () => void
  #isOver = false

  constructor(backend: ProcessBackend, signal: AbortSignal | undefined) {
    super()
    this.#inbox = inboxes.get(backend) ?? new Inbox(backend)
    inboxes.set(backend, this.#inbox)
    if (signal?.aborted) this.#stop.abort(signal.reason)
    this.#unwatch = onAbort(signal, () => this.#stop.abort(signal?.reason))
  }

  protected async step(): Promise<IteratorResult<unknown, undefined>> {
    if (this.#isOver) return { done: true, value: undefined }
    try {
      const message = await this.#inbox.next(this.#stop.signal)
      if (message !== undefined) return { done: false, value: message.value }
    } catch (error) {
      if (!this.#isOver || !(error instanceof AbortError)) {
        this.end()
        throw error
      }
    }
    this.end()
    return { done: true, value: undefined }
  }

  override async return(): Promise<IteratorResult<unknown, undefined>> {
    if (!this.#isOver) {
      this.end()
      this.#stop.abort()
      await this.#inbox.release()
    }
    return { done: true, value: undefined }
  }

  protected end(): void {
    this.#isOver = true
    this.#unwatch()
  }
}
