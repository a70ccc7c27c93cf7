/** Pings on a connection of HTTP/2 whose carrier may not report that the other side has ended. */
import type { Http2Session } from 'node:http2'

/** Milliseconds between two pings. */
const INTERVAL_MS = 30_000
/** Ten minutes. Intervals are counted, and not time: a machine that slept must not lose its sandbox. */
const MOST_UNANSWERED = 20

/** Pings while the connection is open, and destroys it when the other side does not answer any more. */
export function ping(session: Http2Session, interval = INTERVAL_MS, most = MOST_UNANSWERED): void {
  let unanswered = 0
  const timer = setInterval(() => {
    if (session.destroyed) clearInterval(timer)
    else if (unanswered++ < most)
      session.ping((error) => {
        if (error === null) unanswered = 0
      })
    else session.destroy(new Error('the other side does not answer any more'))
  }, interval)
  timer.unref()
}
