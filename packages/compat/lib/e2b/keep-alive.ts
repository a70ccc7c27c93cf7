/** Pings in replies that may be silent for long. */
import type { IncomingHttpHeaders } from 'node:http'

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
      const step = await orPing(next, interval)
      if (step === 'ping') {
        yield step
        continue
      }
      if (step.done) return
      yield step.value
      next = events.next()
    }
  } finally {
    next.catch(() => {})
    events.return?.().catch(() => {})
  }
}

async function orPing<T>(step: Promise<T>, interval: number): Promise<T | 'ping'> {
  let timer: NodeJS.Timeout | undefined
  const ping = new Promise<'ping'>((resolve) => {
    timer = setTimeout(resolve, interval, 'ping')
  })
  try {
    return await Promise.race([step, ping])
  } finally {
    clearTimeout(timer)
  }
}

/** In milliseconds. */
function intervalOf(headers: IncomingHttpHeaders): number {
  const seconds = Number(headers['keepalive-ping-interval'])
  return (seconds >= 1 && seconds <= 3600 ? seconds : PING_SECONDS) * 1000
}
