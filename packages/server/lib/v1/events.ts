/**
 * The feed of events of the sandbox.
 */
import { plans } from 'nacre/internal'
import { tables } from 'nacre/internal/server'
import type { ServerContext } from '../context.js'
import { cursorOf, queryNumber } from '../parameters.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'
import { eventsToEnd } from '../sse.js'
import { encodeReply } from '../wire.js'

export function addEvents(define: Define, { backend }: ServerContext): void {
  define({
    method: 'GET',
    path: '/v1/events',
    summary:
      'Streams what happens in the sandbox, as events: begin, and those after the cursor `since`, or new ones. Event ids are cursors.',
    query: shape({ since: queryNumber }),
    reply: 'events',
    async handle({ query: { since }, lastEventId, signal }) {
      const plan = plans.planEvents({
        since: lastEventId === undefined ? since : cursorOf(lastEventId),
        signal,
      })
      const feed = backend.events(plan)
      const begin = feed.since === undefined ? {} : { cursor: feed.since }
      return eventsToEnd(
        feed,
        (event) => [{ id: event.cursor, data: encodeReply(tables.sandboxEvent, event) }],
        [{ id: feed.since, data: { type: 'begin', ...begin } }],
      )
    },
  })
}
