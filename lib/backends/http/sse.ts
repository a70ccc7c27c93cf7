/**
 * Server-sent events from the body of a response. An incomplete event at the end is dropped.
 *
 * An abort cancels the body here as well: Node forgets to, once the request has been collected as garbage.
 */

import { createParser } from 'eventsource-parser'
import { onAbort } from '../../base/abort.js'
import { objectOf } from '../../schema/reply.js'

export interface ServerEvent {
  id: string | undefined
  // biome-ignore lint/suspicious/noExplicitAny: each route has events of its own
  data: any
}

export async function* readEvents(
  body: ReadableStream<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<ServerEvent, undefined> {
  const reader = body.getReader()
  const ignore = onAbort(signal, () => void reader.cancel().catch(() => {}))
  const decoder = new TextDecoder()
  let events: ServerEvent[] = []
  const parser = createParser({
    onEvent({ id, data }) {
      events.push({ id, data: objectOf(JSON.parse(data)) })
    },
  })
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return undefined
      parser.feed(decoder.decode(value, { stream: true }))
      const ready = events
      events = []
      yield* ready
    }
  } finally {
    ignore()
    reader.cancel().catch(() => {})
  }
}
