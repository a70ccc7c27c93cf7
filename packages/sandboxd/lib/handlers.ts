/**
 * The handlers of the service in the form of grpc-js: each call is counted, logged and answered exactly once.
 */

import type { ServerUnaryCall, ServerWritableStream, sendUnaryData } from '@grpc/grpc-js'
import type { Logger } from 'nacre'
import { clock, report } from 'nacre/internal'
import { type CallEnd, endOf } from './call-end.js'
import { Refused, statusOf } from './status.js'

/** The calls that are being answered. */
export class Calls {
  readonly #most: number
  readonly #logger: Logger | undefined
  #active = 0
  #isClosed = false
  readonly #idle: Array<() => void> = []

  constructor(most: number, logger: Logger | undefined) {
    this.#most = most
    this.#logger = logger
  }

  /** A call with one reply. The signal is aborted when the call ends early. */
  unary<Q, R>(name: string, answer: (request: Q, signal: AbortSignal) => Promise<R>) {
    return (call: ServerUnaryCall<Q, R>, reply: sendUnaryData<R>) => {
      const end = endOf(call)
      const done = this.#begin(name, end)
      this.#answered(() => answer(call.request, end.signal)).then(
        (value) => {
          done(0)
          reply(null, value)
        },
        (error) => reply(done(error)),
      )
    }
  }

  /** A call with a stream of replies. `send` resolves when the connection has taken the message. */
  streaming<Q, R>(
    name: string,
    answer: (request: Q, send: (message: R) => Promise<void>, signal: AbortSignal) => Promise<void>,
  ) {
    return (call: ServerWritableStream<Q, R>) => {
      const end = endOf(call)
      const done = this.#begin(name, end)
      const send = (message: R) => sent(call, message, end.signal)
      this.#answered(() => answer(call.request, send, end.signal)).then(
        () => {
          done(0)
          call.end()
        },
        (error) => call.emit('error', done(error)),
      )
    }
  }

  /** Refuses calls from now on. */
  close(): void {
    this.#isClosed = true
  }

  /** Resolves when no call is being answered. */
  idle(): Promise<void> {
    return this.#active === 0 ? Promise.resolve() : new Promise((resolve) => this.#idle.push(resolve))
  }

  async #answered<T>(answer: () => Promise<T>): Promise<T> {
    this.#checkRoom()
    return answer()
  }

  /** Throws when there is no room for a call that has been counted. */
  #checkRoom(): void {
    if (this.#isClosed) throw new Refused('UNAVAILABLE', 'the server is shutting down')
    if (this.#active > this.#most)
      throw new Refused('RESOURCE_EXHAUSTED', 'the server has as many calls as it takes; try again')
  }

  /** Counts a call until the returned function is called, with 0 or its error, which it turns into a status. */
  #begin(name: string, end: CallEnd) {
    const begun = clock.performance.now()
    this.#active++
    return (error: unknown) => {
      if (--this.#active === 0) for (const resolve of this.#idle.splice(0)) resolve()
      end.release()
      const status =
        error === 0 ? { code: 0, details: 'OK', isOurFault: false } : statusOf(end.reasonFor(error))
      if (status.isOurFault) report(this.#logger, 'error', `grpc ${name}: ${error}`)
      report(
        this.#logger,
        'info',
        `grpc ${name} ${status.code} ${Math.round(clock.performance.now() - begun)} ms`,
      )
      return { code: status.code, details: status.details }
    }
  }
}

/** Rejects when the call ends before the connection has taken the message. */
function sent<R>(call: ServerWritableStream<unknown, R>, message: R, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const leave = () => reject(signal.reason)
    if (signal.aborted) return leave()
    signal.addEventListener('abort', leave, { once: true })
    call.write(message, (error: Error | null | undefined) => {
      signal.removeEventListener('abort', leave)
      if (error) reject(error)
      else resolve()
    })
  })
}
