/**
 * Calls that survive their connections, by the numbers that their callers give them.
 *
 * A proxy may cut every request after some minutes, and connections break. So a caller registers once, and numbers its
 * calls. A request with a number that is in use joins that call, and never begins it again. So the caller can repeat
 * any request until it has the reply, and no command runs twice. Another request with that number is refused.
 */
import { crypto } from 'nacre/internal'
import { protocol } from 'nacre/internal/server'
import { Refusal } from './failure.js'
import { IdempotentCall } from './idempotent-call.js'
import { UsedNumbers } from './used-numbers.js'

const MOST_CALLERS = 10_000
/** What a request asks for. */
export interface Asked {
  method: string
  /** Its path and query count. */
  url: string
  /** The checked body; undefined for none, and for an upload, which is compared while it is read. */
  body: unknown
}

/** Bytes of replies that are kept for one caller. Beyond that, the oldest ones are dropped. */
const MOST_KEPT_BYTES = 64 * 1024 * 1024

/** The same for all callers. Beyond that, the replies of the least recently used ones are dropped. */
const MOST_KEPT_BYTES_OF_ALL = 128 * 1024 * 1024

interface IdempotentCaller {
  /** The sandbox of a fleet that the caller uses. */
  sandbox: string | undefined
  /** Milliseconds for which a call is kept without a connection. */
  keep: number
  used: UsedNumbers
  calls: Map<number, IdempotentCall>
  /** Bytes of its replies. */
  bytes: number
}

export class Callers {
  /** The least recently used one is first. */
  readonly #callers = new Map<string, IdempotentCaller>()
  readonly #closing: AbortSignal
  /** Bytes of the replies of all callers. */
  #bytes = 0

  /** `closing` is aborted when the server ends. */
  constructor(closing: AbortSignal) {
    this.#closing = closing
  }

  /** Registers a caller and returns its id. `keep` is in milliseconds. `sandbox` is that of a fleet. */
  register(keep: number, sandbox?: string): string {
    const id = crypto().randomUUID()
    if (this.#callers.size >= MOST_CALLERS) this.#evict()
    this.#callers.set(id, { sandbox, keep, used: new UsedNumbers(), calls: new Map(), bytes: 0 })
    return id
  }

  /** The sandboxes of fleets that callers use. */
  get sandboxes(): string[] {
    const found = [...this.#callers.values()].flatMap(({ sandbox }) => sandbox ?? [])
    return [...new Set(found)]
  }

  /** Ends all calls of a caller, and forgets it. */
  unregister(id: string): void {
    const { calls } = this.#find(id)
    this.#callers.delete(id)
    for (const call of calls.values()) call.end('the caller has ended')
  }

  /** Ends a call, and keeps a request for it that arrives later from beginning it. */
  cancel(id: string, number: number): void {
    const caller = this.#find(id)
    caller.used.take(number)
    caller.calls.get(number)?.end('the caller has cancelled the call')
    caller.calls.delete(number)
  }

  /** The call that a request names; undefined when it names none. Throws a Refusal. */
  callOf(headers: Headers, asked: Asked): IdempotentCall | undefined {
    const name = headers.get(protocol.CALL_HEADER)
    if (name === null) return undefined
    const [, id = '', digits = ''] = /^([0-9a-f-]{36})\/([1-9]\d{0,14})$/.exec(name) ?? []
    if (id === '') throw new Refusal('VALIDATION_FAILED', `${protocol.CALL_HEADER} must be <caller>/<number>`)
    const caller = this.#find(id)
    this.#callers.delete(id)
    this.#callers.set(id, caller)
    acknowledge(caller, headers.get(protocol.RECEIVED_HEADER))
    return this.#open(caller, Number(digits), digestOf(asked))
  }

  #open(caller: IdempotentCaller, number: number, digest: string): IdempotentCall {
    const known = caller.calls.get(number)
    if (known?.digest === digest) return known
    if (known !== undefined) throw callMismatch()
    if (!caller.used.take(number))
      throw new Refusal('CALL_FORGOTTEN', 'the call has been performed, and its reply is no longer kept')
    const call = new IdempotentCall(digest, {
      keep: caller.keep,
      closing: this.#closing,
      forget() {
        caller.calls.delete(number)
        call.end('no connection has waited for the call')
      },
      resized: (change) => {
        caller.bytes += change
        this.#bytes += change
        if (change > 0) this.#trim(caller)
      },
    })
    caller.calls.set(number, call)
    return call
  }

  #trim(caller: IdempotentCaller): void {
    dropReplies(caller, () => caller.bytes <= MOST_KEPT_BYTES)
    const isWithin = () => this.#bytes <= MOST_KEPT_BYTES_OF_ALL
    for (const other of this.#callers.values()) {
      if (isWithin()) return
      dropReplies(other, isWithin)
    }
  }

  #find(id: string): IdempotentCaller {
    const caller = this.#callers.get(id)
    if (caller === undefined) throw new Refusal('CALLER_NOT_FOUND', 'there is no such caller')
    return caller
  }

  /** Forgets the caller that has been idle for longest. */
  #evict(): void {
    for (const [id, { calls }] of this.#callers) {
      if (calls.size > 0) continue
      this.#callers.delete(id)
      return
    }
    throw new Refusal('OVERLOADED', `the server has ${MOST_CALLERS} callers already; try again`)
  }
}

export function callMismatch(): Refusal {
  return new Refusal(
    'CALL_MISMATCH',
    'the call with this number is another request: repeat it with the same method, path and body, or use a new number',
  )
}

/** Two requests with the same digest are the same call. */
function digestOf({ method, url, body = null }: Asked): string {
  const { pathname, search } = new URL(url)
  return crypto()
    .createHash('sha256')
    .update(JSON.stringify([method, pathname + search, body]))
    .digest('base64')
}

/** Drops the replies that have arrived. */
function acknowledge({ calls }: IdempotentCaller, received: string | null): void {
  for (const digits of received?.split(',') ?? []) {
    const number = Number(digits)
    calls.get(number)?.end('the reply has arrived')
    calls.delete(number)
  }
}

/** Drops the replies of a caller, the oldest first, until it is enough. */
function dropReplies({ calls }: IdempotentCaller, isEnough: () => boolean): void {
  for (const [number, call] of calls) {
    if (isEnough()) return
    if (call.bytes === 0) continue
    call.end('too many bytes of replies are kept')
    calls.delete(number)
  }
}
