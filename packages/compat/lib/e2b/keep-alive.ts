/** Pings in replies that may be silent for long. */
import type { IncomingHttpHeaders } from 'node:http'
import { inTime } from 'nacre/internal'

const PING_SECONDS = 90

/** Yields the events, and 'ping' when there was none for as long as the client wants to wait. */
export async function* keepAlive<T extends object>(
  source: AsyncIterable<T>,
  headers: IncomingHttpHeaders,
): AsyncGenerator<T | 'ping'> {
  const interval = intervalOf(headers)
  const events = source[Symbol.asyncIterator]()
  let next = events.next()
  try {
    for (;;) {
      const step = await inTime(interval, next)
      if (step === undefined) {
        yield 'ping'
        continue
      }
      if (step.value.done) return
      yield step.value.value
      next = events.next()
    }
  } finally {
    next.catch(() => {})
    events.return?.().catch(() => {})
  }
}

/** In milliseconds. */
function intervalOf(headers: IncomingHttpHeaders): number {
  const seconds = Number(headers['keepalive-ping-interval'])
  return (seconds >= 1 && seconds <= 3600 ? seconds : PING_SECONDS) * 1000
}
