/**
 * A stream that survives broken connections: it reconnects from the cursor of the last event that it has handed out. So
 * there is neither a gap nor a duplicate.
 */
import { onAbort, refuseAborted } from '../../base/abort.js'
import { AbortError } from '../../base/errors.js'
import { Steps } from '../../base/steps.js'
import type { Connection } from './connection.js'
import { connectionError, errorOf, isEnvelope, isInterruption } from './failure.js'
import { Reconnection } from './reconnection.js'
import type { Request } from './request.js'
import type { ServerEvent } from './sse.js'

export interface Resumable<T> {
  cursor: number
  /** The request for the events after a cursor. */
  request: (cursor: number) => Request
  /** The value of an event, and the cursor behind it. */
  value: (data: ServerEvent['data']) => { value: T; cursor?: number }
  signal: AbortSignal | undefined
  /** What an abort ends, for the message. */
  subject: string
}

export class ResumingStream<T> extends Steps<T> {
  readonly #connection: Connection
  readonly #source: Resumable<T>
  readonly #stop = new AbortController()
  #cursor: number
  #events: AsyncGenerator<ServerEvent, undefined> | undefined
  #isOver = false
  /** Set by the first step: a stream that is never read must leave no listener. */
  #ignore: (() => void) | undefined

  constructor(connection: Connection, source: Resumable<T>) {
    super()
    this.#connection = connection
    this.#source = source
    this.#cursor = source.cursor
  }

  protected async step(): Promise<IteratorResult<T, undefined>> {
    if (this.#isOver) return { done: true, value: undefined }
    const { signal, subject } = this.#source
    this.#ignore ??= onAbort(signal, () => this.#stop.abort())
    try {
      const data = await this.#receive()
      if (data !== undefined && !this.#isOver) {
        const { value, cursor } = this.#source.value(data)
        this.#cursor = cursor ?? this.#cursor
        return { done: false, value }
      }
    } catch (error) {
      // After `return()` the error does not matter.
      if (!this.#isOver) {
        this.end()
        throw signal?.aborted ? new AbortError(signal.reason, undefined, subject) : error
      }
    }
    this.end()
    return { done: true, value: undefined }
  }

  /** The next event, after reconnecting if needed; undefined at the end. */
  async #receive(): Promise<ServerEvent['data'] | undefined> {
    const { signal, subject } = this.#source
    const reconnection = new Reconnection(this.#connection)
    // A silent stream is cut again and again by a proxy with a time limit.
    const onOpen = () => reconnection.contact()
    for (;;) {
      refuseAborted(signal, subject)
      try {
        return await this.#read(onOpen)
      } catch (error) {
        this.#events = undefined
        if (this.#stop.signal.aborted || !isInterruption(error)) throw error
        this.#connection.check()
        await reconnection.wait(error, this.#stop.signal)
      }
    }
  }

  /** Only the event `end` ends the stream: without it, the end of a response is a broken connection. */
  async #read(onOpen: () => void): Promise<ServerEvent['data'] | undefined> {
    const request = { ...this.#source.request(this.#cursor), signal: this.#stop.signal, onOpen }
    this.#events ??= this.#connection.events(request)
    const { done, value } = await this.#events.next()
    if (done) throw connectionError(`${request.path} ended early`)
    if (value.data.type === 'error' && isEnvelope(value.data.error)) throw errorOf(value.data.error)
    return value.data.type === 'end' ? undefined : value.data
  }

  protected end(): void {
    this.#isOver = true
    this.#ignore?.()
    this.#stop.abort()
    this.#events?.return(undefined).catch(() => {})
  }
}
