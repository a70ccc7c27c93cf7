/**
 * A watch on the server as an iteration. It begins when it is made. A broken connection ends it: what has changed
 * meanwhile is not known.
 */
import { onAbort, refuseAborted } from '../../base/abort.js'
import { AbortError } from '../../base/errors.js'
import type { FileEvent } from '../../public/index.js'
import type { Connection } from './connection.js'
import { connectionError, errorOf, isEnvelope } from './failure.js'
import type { Request } from './request.js'
import type { ServerEvent } from './sse.js'

export class FileWatch implements AsyncIterableIterator<FileEvent, undefined> {
  readonly #request: Request
  readonly #signal: AbortSignal | undefined
  readonly #stop = new AbortController()
  readonly #ignore: () => void
  readonly #events: AsyncGenerator<ServerEvent, undefined>
  /** The first event, read immediately: that sends the request. */
  #first: Promise<IteratorResult<ServerEvent, undefined>> | undefined
  #turn: Promise<unknown> = Promise.resolve()
  #isOver = false

  constructor(connection: Connection, request: Request, signal: AbortSignal | undefined) {
    this.#request = request
    this.#signal = signal
    this.#ignore = onAbort(signal, () => this.#end())
    this.#events = connection.events({ ...request, signal: this.#stop.signal })
    if (signal?.aborted) this.#isOver = true
    else this.#first = this.#events.next()
    this.#first?.catch(() => {})
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  /** Overlapping calls settle in order. */
  next(): Promise<IteratorResult<FileEvent, undefined>> {
    const step = this.#turn.then(() => this.#step())
    this.#turn = step.catch(() => {})
    return step
  }

  async return(): Promise<IteratorResult<FileEvent, undefined>> {
    this.#end()
    return { done: true, value: undefined }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return()
  }

  async #step(): Promise<IteratorResult<FileEvent, undefined>> {
    refuseAborted(this.#signal, 'the watch')
    if (this.#isOver) return { done: true, value: undefined }
    try {
      const data = await this.#receive()
      if (data !== undefined && !this.#isOver) return { done: false, value: data }
    } catch (error) {
      // After `return()` the error does not matter.
      if (!this.#isOver) {
        this.#end()
        throw error
      }
    }
    this.#end()
    if (this.#signal?.aborted) throw new AbortError(this.#signal.reason, undefined, 'the watch')
    return { done: true, value: undefined }
  }

  async #receive(): Promise<FileEvent | undefined> {
    const step = this.#first ?? this.#events.next()
    this.#first = undefined
    const { done, value } = await step
    if (done) throw connectionError(`${this.#request.path} ended early`)
    if (value.data.type === 'error' && isEnvelope(value.data.error)) throw errorOf(value.data.error)
    return value.data.type === 'end' ? undefined : value.data
  }

  #end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#ignore()
    this.#stop.abort()
    this.#events.return(undefined).catch(() => {})
  }
}
