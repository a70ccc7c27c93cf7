/**
 * A watch on the server as an iteration. It begins when it is made. A broken connection ends it: what has changed
 * meanwhile is not known. A client whose calls survive that begins the watch anew, and reports an overflow.
 */
import { onAbort, refuseAborted } from '../../base/abort.js'
import { AbortError } from '../../base/errors.js'
import { Steps } from '../../base/steps.js'
import { fileEvent } from '../../calls/files.js'
import type { FileEvent } from '../../calls/index.js'
import type { Connection } from './connection.js'
import { connectionError, errorOf, isEnvelope } from './failure.js'
import { Reconnection } from './reconnection.js'
import { isTransient } from './repeat.js'
import type { Request } from './request.js'
import type { ServerEvent } from './sse.js'

export class FileWatch extends Steps<FileEvent> {
  readonly #connection: Connection
  readonly #path: string
  readonly #request: Request
  readonly #signal: AbortSignal | undefined
  readonly #stop = new AbortController()
  readonly #ignore: () => void
  #events: AsyncGenerator<ServerEvent, undefined>
  /** The first event, read immediately: that sends the request. */
  #first: Promise<IteratorResult<ServerEvent, undefined>> | undefined
  /** The first event after a restart. */
  #next: Promise<IteratorResult<ServerEvent, undefined>> | undefined
  #isOver = false

  /** `path`: what is watched, for events. */
  constructor(connection: Connection, path: string, request: Request, signal: AbortSignal | undefined) {
    super()
    this.#connection = connection
    this.#path = path
    this.#request = request
    this.#signal = signal
    this.#ignore = onAbort(signal, () => this.end())
    this.#events = connection.events({ ...request, signal: this.#stop.signal })
    if (signal?.aborted) this.#isOver = true
    else this.#first = this.#events.next()
    this.#first?.catch(() => {})
  }

  protected async step(): Promise<IteratorResult<FileEvent, undefined>> {
    refuseAborted(this.#signal, 'the watch')
    if (this.#isOver) return { done: true, value: undefined }
    try {
      const data = await this.#receive()
      if (data !== undefined && !this.#isOver) return { done: false, value: data }
    } catch (error) {
      // After `return()` the error does not matter.
      if (!this.#isOver) {
        this.end()
        throw error
      }
    }
    this.end()
    if (this.#signal?.aborted) throw new AbortError(this.#signal.reason, undefined, 'the watch')
    return { done: true, value: undefined }
  }

  async #receive(): Promise<FileEvent | undefined> {
    const reconnection = new Reconnection(this.#connection)
    for (;;) {
      try {
        return await this.#read()
      } catch (error) {
        if (!this.#connection.resumes || this.#stop.signal.aborted || !isTransient(error)) throw error
        await reconnection.wait(error, this.#stop.signal)
        this.#first = this.#restart()
      }
    }
  }

  /** Begins the watch anew. Resolves with an overflow once it has begun. */
  #restart(): Promise<IteratorResult<ServerEvent, undefined>> {
    const data = { type: 'overflow', path: this.#path }
    return new Promise((resolve, reject) => {
      const onOpen = () => resolve({ done: false, value: { id: undefined, data } })
      this.#events = this.#connection.events({ ...this.#request, signal: this.#stop.signal, onOpen })
      this.#next = this.#events.next()
      this.#next.catch(reject)
    })
  }

  async #read(): Promise<FileEvent | undefined> {
    const step = this.#first ?? this.#next ?? this.#events.next()
    if (this.#first === undefined) this.#next = undefined
    this.#first = undefined
    const { done, value } = await step
    if (done) throw connectionError(`${this.#request.path} ended early`)
    if (value.data.type === 'error' && isEnvelope(value.data.error)) throw errorOf(value.data.error)
    return value.data.type === 'end' ? undefined : fileEvent.decode(value.data)
  }

  protected end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#ignore()
    this.#stop.abort()
    this.#events.return(undefined).catch(() => {})
  }
}
