/**
 * Calls that are repeated until their reply is here, although the server performs each once.
 *
 * Every request that changes something has the number of its call, so the server joins a repetition to the call that it
 * has begun. Requests that only read are repeated as they are.
 */
import { abortable, onAbort, refuseAborted } from '../../base/abort.js'
import { AbortError } from '../../base/errors.js'
import type { Endpoint } from '../../protocol/endpoint.js'
import * as endpoints from '../../protocol/endpoints.js'
import { MOST_KEEP_MS } from '../../protocol/keep.js'
import type { CallLimits } from './call-limits.js'
import { connectionError, refusalCode } from './failure.js'
import { type IdempotencyKey, IdempotentCaller } from './idempotent-caller.js'
import { Persistence } from './persistence.js'
import { isTransient } from './repeat.js'
import type { Details, Request } from './request.js'
import type { ServerEvent } from './sse.js'

/** Milliseconds for which the server keeps a call longer than the client repeats it. */
const KEEP_MARGIN_MS = 10_000
/** Milliseconds in which the server must answer when the time is up. */
const LAST_LOOK_MS = 2000
/** Milliseconds in which the server must answer when a call is cancelled. */
const CANCEL_MS = 2000
/** Milliseconds for the last request of a client. */
const FAREWELL_MS = 2000

/** What the calls use of the connection. */
export interface Attempts {
  reconnectTimeout: number
  /** The sandbox of a fleet, for the server's metrics. */
  sandbox: string
  /** Makes one request with limits of its own. */
  once<T>(endpoint: Endpoint<T>, details: Details): Promise<T>
  /** Asks the server until `limit` is aborted whether it is there. */
  isThere(limit: AbortSignal): Promise<boolean>
  /** Makes one request for events. */
  events(request: Request): AsyncIterable<ServerEvent>
  /** Throws when the client has ended, or its sandbox is lost. */
  check(): void
  /** The last error of a call whose server cannot be reached. */
  final(error: unknown): Promise<unknown>
}

export class PersistentCalls {
  readonly #attempts: Attempts
  readonly #caller: IdempotentCaller

  constructor(attempts: Attempts) {
    const { sandbox } = attempts
    this.#attempts = attempts
    const keep = Math.min(attempts.reconnectTimeout + KEEP_MARGIN_MS, MOST_KEEP_MS)
    const request = { body: { keep, sandbox } }
    this.#caller = new IdempotentCaller(() => attempts.once(endpoints.registerCaller, request))
  }

  /** Registers the caller, and tries so until the server takes calls. */
  async connect(stop: AbortSignal): Promise<void> {
    const persistence = this.#persistence()
    for (;;) {
      try {
        return void (await this.#caller.connected())
      } catch (error) {
        await this.#wait(error, persistence, stop, false)
      }
    }
  }

  /** Makes a call. `attempt` sends its request once. */
  async call<T>(request: Request, limits: CallLimits, attempt: (request: Request) => Promise<T>): Promise<T> {
    const persistence = this.#persistence()
    const call = new Call(this.#caller, request.method === 'GET' || request.content !== undefined)
    const onOpen = () => persistence.contact()
    const { cancel, subject } = request
    const ignore = onAbort(cancel, () => {
      if (call.key !== undefined) this.#cancel(call.key).catch(() => limits.stop())
    })
    try {
      for (;;) {
        try {
          const isNew = call.key === undefined
          const headers = await call.headers(request, cancel ?? limits.signal)
          if (isNew) refuseAborted(cancel)
          const reply = await attempt({ ...request, headers, onOpen })
          call.isAnswered = true
          return reply
        } catch (caught) {
          if (cancel?.aborted && call.isCancelled(caught)) {
            call.isAnswered = true
            throw new AbortError(cancel.reason, undefined, subject)
          }
          // A server that ends aborts its commands. As with a broken connection, the next attempts show what became of it.
          const isEnd = caught instanceof AbortError && !limits.signal.aborted
          const end = `${request.path} was ended by the end of the server`
          const error = isEnd ? connectionError(end, caught) : caught
          if (call.mayRenew(error)) continue
          call.isAnswered = isAnswer(error)
          await this.#wait(error, persistence, limits.signal, isLast(request))
        }
      }
    } finally {
      ignore()
      this.#settle(call)
    }
  }

  /** Makes a call whose reply is events, the last of which is `complete` or `error`. */
  async *events(request: Request, stop: AbortSignal): AsyncGenerator<ServerEvent, undefined> {
    const persistence = this.#persistence()
    const call = new Call(this.#caller, false)
    const onOpen = () => persistence.contact()
    let last = 0
    try {
      for (;;) {
        const first = last
        try {
          const headers = await call.headers(request, stop)
          if (last > 0) headers['last-event-id'] = String(last)
          for await (const event of this.#attempts.events({ ...request, headers, onOpen })) {
            const id = Number(event.id)
            if (id <= last) continue
            last = id
            call.isAnswered = event.data.type === 'complete' || event.data.type === 'error'
            yield event
          }
          if (call.isAnswered) return undefined
          // A response ends after so much output, and the next one continues.
          if (last === first) throw connectionError(`${request.path} ended early`)
        } catch (error) {
          if (call.mayRenew(error)) continue
          call.isAnswered = isAnswer(error)
          await this.#wait(error, persistence, stop, false)
        }
      }
    } finally {
      this.#settle(call)
    }
  }

  /** Ends all calls on the server. */
  async close(): Promise<void> {
    const callerId = await this.#caller.id?.catch(() => undefined)
    if (callerId === undefined) return
    const signal = AbortSignal.timeout(FAREWELL_MS)
    await this.#attempts.once(endpoints.removeCaller, { params: { callerId }, isFarewell: true, signal })
  }

  #persistence(): Persistence {
    const { reconnectTimeout, isThere } = this.#attempts
    return new Persistence(reconnectTimeout, () => isThere(AbortSignal.timeout(LAST_LOOK_MS)))
  }

  /** Waits before the next attempt. Throws what ends the call. */
  async #wait(error: unknown, persistence: Persistence, stop: AbortSignal, isLast: boolean): Promise<void> {
    if (stop.aborted) this.#attempts.check()
    if (stop.aborted || !isTransient(error)) throw error
    if (isLast || !(await persistence.next(stop))) throw await this.#attempts.final(error)
  }

  /** Acknowledges the reply, or cancels the call. */
  #settle({ key, isAnswered }: Call): void {
    if (key === undefined) return
    if (isAnswered) this.#caller.received(key)
    else this.#cancel(key).catch(() => {})
  }

  async #cancel({ callerId, number }: IdempotencyKey): Promise<void> {
    const signal = AbortSignal.timeout(CANCEL_MS)
    await this.#attempts.once(endpoints.cancelCall, { params: { callerId, number }, signal })
  }
}

/** One call, whose requests all have the same key. */
class Call {
  readonly #caller: IdempotentCaller
  readonly #isRead: boolean
  /** Of this key. */
  #requests = 0
  #isRenewed = false
  key: IdempotencyKey | undefined
  isAnswered = false

  /** `isRead`: its requests need no key. */
  constructor(caller: IdempotentCaller, isRead: boolean) {
    this.#caller = caller
    this.#isRead = isRead
  }

  /** The headers of the next request. */
  async headers({ headers }: Request, stop: AbortSignal): Promise<Record<string, string>> {
    if (this.#isRead) return { ...headers }
    if (this.key === undefined) {
      this.key = await abortable(this.#caller.nextKey(), stop)
    }
    this.#requests++
    return { ...headers, ...this.#caller.headers(this.key) }
  }

  /** Whether the call can begin again as another caller's: the server has refused the only request of this key. */
  mayRenew(error: unknown): boolean {
    if (refusalCode(error) !== 'CALLER_NOT_FOUND' || this.#requests !== 1 || this.#isRenewed) return false
    this.#caller.forget(this.key?.callerId)
    this.key = undefined
    this.#requests = 0
    this.#isRenewed = true
    return true
  }

  /** Whether an error tells that the call was cancelled in time: it has ended, or its only request arrived later. */
  isCancelled(error: unknown): boolean {
    return error instanceof AbortError || (refusalCode(error) === 'CALL_FORGOTTEN' && this.#requests === 1)
  }
}

/** Whether an error is the reply of the server to the call. */
function isAnswer(error: unknown): boolean {
  return !isTransient(error) && (error as { code?: unknown } | null)?.code !== 'ABORT_ERR'
}

/** An upload is repeated only when it writes the same again. */
function isLast({ content, isIdempotent }: Request): boolean {
  return content !== undefined && isIdempotent !== true
}
