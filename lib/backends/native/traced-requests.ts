/** The requests of traced commands, for the tracing channel `nacre:request`. */
import { deferred } from '../../base/deferred.js'
import type { NativeEvent } from '../../boundary/index.js'
import { publishRequest, type RequestEnd, type TraceContext } from './tracing.js'

export class TracedRequests {
  /** The contexts of running commands, by the ids of their calls. */
  readonly #commands = new Map<number, TraceContext>()
  /** Ends those that go on, by their numbers. */
  readonly #open = new Map<number, (end: RequestEnd) => void>()

  /** Adds a command. Returns a function that removes it. */
  add(id: number, context: TraceContext): () => void {
    this.#commands.set(id, context)
    return () => void this.#commands.delete(id)
  }

  receive(event: Extract<NativeEvent, { kind: 'request' | 'reply' }>): void {
    const { request } = event
    if (event.kind === 'reply') {
      const { status = null, denied } = event
      this.#open.get(request)?.({ status, ...(denied && { denied }) })
      this.#open.delete(request)
      return
    }
    const call = this.#commands.get(event.id)
    // Otherwise it comes from a process that the command left behind.
    if (call === undefined) return
    const { promise, resolve } = deferred<RequestEnd>()
    this.#open.set(request, resolve)
    publishRequest({ ...event.about, call }, promise)
  }
}
