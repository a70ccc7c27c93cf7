/**
 * A hold on the server: a call that lasts as long as the hold. So the hold ends with the client, and with its connection, or
 * survives that as other calls do.
 */
import { holdEvent } from '../../calls/hold.js'
import type { Endpoint } from '../../protocol/endpoint.js'
import { HOLD_HEADER } from '../../protocol/headers.js'
import type { HoldBackend } from '../../sandbox/backend.js'
import type { Connection } from './connection.js'
import { connectionError, errorOf } from './failure.js'
import type { Details } from './request.js'

export class HttpHold implements HoldBackend {
  readonly id: string
  readonly ended: Promise<void>
  readonly #stop: AbortController
  readonly #release: (note: string | undefined) => Promise<void>

  private constructor(
    id: string,
    ended: Promise<void>,
    stop: AbortController,
    release: (note: string | undefined) => Promise<void>,
  ) {
    this.id = id
    this.ended = ended
    this.#stop = stop
    this.#release = release
  }

  /** Begins a hold. `release` is the endpoint that ends it, with these details. */
  static async begin(
    connection: Connection,
    { path, owner }: { path: string; owner: string },
    release: Endpoint<void>,
    details: Details,
  ): Promise<HttpHold> {
    const stop = new AbortController()
    const request = { path, body: { owner }, signal: stop.signal, subject: 'the hold' }
    const events = connection.runEvents(request, stop.signal)
    const first = await events.next()
    if (first.done) throw connectionError(`${path} ended early`)
    if (first.value.data.type === 'error') throw errorOf(first.value.data.error)
    const { hold } = holdEvent.decode(first.value.data)
    const follow = async () => {
      try {
        for await (const _ of events);
      } catch {
        // The connection is lost, or the client has ended: and with it the hold.
      }
    }
    return new HttpHold(hold, follow(), stop, (note) =>
      connection.call(release, { ...details, query: { note }, headers: holdHeaders(hold) }),
    )
  }

  async release(note?: string): Promise<void> {
    try {
      await this.#release(note)
    } catch {
      // With its call, the hold ends in any case.
    }
    this.#stop.abort()
    await this.ended
  }
}

/** The headers of a request that uses what the caller holds. */
export function holdHeaders(hold: string | undefined): Record<string, string> {
  return hold === undefined ? {} : { [HOLD_HEADER]: hold }
}
