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

/** Begins a hold. `end` is the endpoint that ends it, with these details. */
export async function beginHold(
  connection: Connection,
  { path, owner }: { path: string; owner: string },
  end: Endpoint<void>,
  details: Details,
): Promise<HoldBackend> {
  const stop = new AbortController()
  const request = { path, body: { owner }, signal: stop.signal, subject: 'the hold' }
  const events = connection.runEvents(request, stop.signal)
  const first = await events.next()
  if (first.done) throw connectionError(`${path} ended early`)
  if (first.value.data.type === 'error') throw errorOf(first.value.data.error)
  const { hold: id } = holdEvent.decode(first.value.data)
  const follow = async () => {
    try {
      for await (const _ of events);
    } catch {
      // The connection is lost, or the client has ended: and with it the hold.
    }
  }
  const ended = follow()
  return {
    id,
    ended,
    async release(note) {
      // With its call, the hold ends in any case.
      await connection.call(end, { ...details, query: { note }, headers: holdHeaders(id) }).catch(() => {})
      stop.abort()
      await ended
    },
  }
}

/** The headers of a request that uses what the caller holds. */
export function holdHeaders(hold: string | undefined): Record<string, string> {
  return hold === undefined ? {} : { [HOLD_HEADER]: hold }
}
