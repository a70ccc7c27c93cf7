/**
 * The calls of a client that survive their connections, as the server knows them.
 *
 * The client registers once, which runs nothing, and numbers its calls. The server performs each number once. It keeps the
 * reply until a later request acknowledges it.
 */
import { CALL_HEADER, RECEIVED_HEADER } from '../../protocol/headers.js'

/** Acknowledgements in one request: a header has a limit. */
const MOST_ACKNOWLEDGED = 64

/** A call's place among those of its caller. */
export interface IdempotencyKey {
  callerId: string
  number: number
}

export class IdempotentCaller {
  readonly #register: () => Promise<string>
  #id: Promise<string> | undefined
  /** The same, once it is known. */
  #known: string | undefined
  #number = 0
  #received: IdempotencyKey[] = []

  /** `register` resolves with the id of a new caller. */
  constructor(register: () => Promise<string>) {
    this.#register = register
  }

  /** The id, if the caller has been registered. */
  get id(): Promise<string> | undefined {
    return this.#id
  }

  /** The key of a new call. Rejects when the server cannot be reached; nothing has run then. */
  async nextKey(): Promise<IdempotencyKey> {
    return { callerId: await this.connected(), number: ++this.#number }
  }

  /** Registers the caller, and resolves with its id. */
  async connected(): Promise<string> {
    const id = this.#id ?? this.#register()
    this.#id = id
    try {
      const known = await id
      if (this.#id === id) this.#known = known
      return known
    } catch (error) {
      if (this.#id === id) this.#id = undefined
      throw error
    }
  }

  /** The server has forgotten a caller: the next key is another one's. Of many calls, the first to notice forgets it. */
  forget(callerId: string | undefined): void {
    if (callerId !== this.#known) return
    this.#id = undefined
    this.#known = undefined
  }

  /** The headers of a request for a call. They acknowledge replies that have arrived. */
  headers({ callerId, number }: IdempotencyKey): Record<string, string> {
    const ours = this.#received.splice(0, MOST_ACKNOWLEDGED).filter((key) => key.callerId === callerId)
    return {
      [CALL_HEADER]: `${callerId}/${number}`,
      ...(ours.length > 0 && { [RECEIVED_HEADER]: ours.map((key) => key.number).join(',') }),
    }
  }

  /** The reply to a call has arrived. */
  received(key: IdempotencyKey): void {
    this.#received.push(key)
  }
}
