/**
 * A call that survives its connection: its work, and its reply until the client has it.
 *
 * While no connection waits for the call, a timer runs. When it expires, the work is aborted and the reply is dropped.
 */
import { aborts, clock, crypto } from 'nacre/internal'
import type { EventLog } from './event-log.js'
import { bodyOfPieces } from './long-list.js'

/** A reply as it is sent again. */
interface KeptReply {
  status: number
  headers: Array<[string, string]>
  /** In the pieces in which it was made. */
  pieces: Uint8Array[]
}

/** What a call needs of its caller. */
export interface CallOwner {
  /** Milliseconds for which the call is kept without a connection. */
  keep: number
  /** Aborts the call, too. */
  closing: AbortSignal
  /** Called when the call has been without a connection for too long. */
  forget: () => void
  /** Called with the change when the call keeps more bytes, or fewer. */
  resized: (change: number) => void
}

export class IdempotentCall {
  /** Of the request that has begun the call. */
  readonly digest: string
  readonly #abort = new AbortController()
  readonly #owner: CallOwner
  readonly #release: () => void
  /** Of the upload that the call has read to its end. */
  #uploaded: string | undefined
  #connections = 0
  #timer: NodeJS.Timeout | undefined
  #reply: Promise<KeptReply> | undefined
  #events: Promise<EventLog> | undefined
  #hasEnded = false
  /** Bytes of the reply, once it is there. */
  bytes = 0

  constructor(digest: string, owner: CallOwner) {
    const { closing } = owner
    this.digest = digest
    this.#owner = owner
    this.#release = aborts.onAbort(closing, () => this.#abort.abort(closing.reason))
    if (closing.aborted) this.#abort.abort(closing.reason)
  }

  /** Aborted when the client cancels the call, or does not return. */
  get signal(): AbortSignal {
    return this.#abort.signal
  }

  /** Marks a connection that waits for the call. Returns the function that marks its end. */
  attach(gone: AbortSignal): () => void {
    this.#connections++
    clock.clearTimeout(this.#timer)
    let isAttached = true
    const detach = () => {
      if (!isAttached) return
      isAttached = false
      ignore()
      if (--this.#connections > 0 || this.signal.aborted) return
      this.#timer = clock.setTimeout(() => this.#owner.forget(), this.#owner.keep)
      this.#timer.unref()
    }
    const ignore = aborts.onAbort(gone, detach)
    if (gone.aborted) detach()
    return detach
  }

  /** The reply. The first call begins the work; the others wait for the same. */
  async reply(work: () => Promise<Response>): Promise<Response> {
    this.#reply ??= work().then(async (response) => {
      const pieces: Uint8Array[] = []
      for await (const piece of response.body ?? []) pieces.push(piece)
      this.#resize(pieces.reduce((sum, { length }) => sum + length, 0))
      return { status: response.status, headers: [...response.headers], pieces }
    })
    const { status, headers, pieces } = await this.#reply
    const body = pieces.length > 1 ? bodyOfPieces(pieces) : (pieces[0] as Uint8Array<ArrayBuffer> | undefined)
    return new Response(body, { status, headers })
  }

  /**
   * The upload of a request. `body` is for the work, if this request begins it. A repetition reads its upload only to
   * compare it: call `isOther` when the call is over.
   */
  upload(given: AsyncIterable<Uint8Array>): {
    body: AsyncIterable<Uint8Array>
    isOther: () => Promise<boolean>
  } {
    if (this.#reply === undefined) return { body: this.#record(given), isOther: async () => false }
    // An upload that breaks off is another one, too.
    const digest = digestOf(given).catch(() => undefined)
    return {
      body: given,
      isOther: async () => this.#uploaded !== undefined && this.#uploaded !== (await digest),
    }
  }

  async *#record(given: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    const hash = crypto().createHash('sha256')
    for await (const piece of given) {
      hash.update(piece)
      yield piece
    }
    this.#uploaded = hash.digest('base64')
  }

  /** The events. The first call begins the work. Rejects when it cannot begin. */
  events(work: () => Promise<EventLog>): Promise<EventLog> {
    this.#events ??= work()
    return this.#events
  }

  /** Aborts what still runs and drops the rest. */
  end(reason: string): void {
    clock.clearTimeout(this.#timer)
    this.#release()
    this.#resize(0)
    this.#hasEnded = true
    this.#abort.abort(new Error(reason))
    this.#events?.then((log) => log.end()).catch(() => {})
  }

  #resize(bytes: number): void {
    if (this.#hasEnded) return
    const change = bytes - this.bytes
    this.bytes = bytes
    this.#owner.resized(change)
  }
}

async function digestOf(upload: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = crypto().createHash('sha256')
  for await (const piece of upload) hash.update(piece)
  return hash.digest('base64')
}
