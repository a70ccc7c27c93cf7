/** What both sides of a connection of HTTP/2 over two pipes need. */

import type { Http2Session } from 'node:http2'
import type { Duplex, Readable, Writable } from 'node:stream'
import { stream } from './builtin.js'
import { clearInterval, setInterval } from './timers.js'

/** Bytes that the other side may send ahead on one stream, and on all of them. Small replies wait behind them. */
export const STREAM_WINDOW = 2 * 1024 * 1024
const WINDOW = 4 * 1024 * 1024
/** Megabytes that the connection may hold before it refuses streams: many can be full at once. */
export const MOST_MEMORY_MB = 512

/** Milliseconds between two pings. */
const INTERVAL_MS = 30_000
/** Ten minutes. Intervals are counted, and not time: a machine that slept must not lose its sandbox. */
const MOST_UNANSWERED = 20

/**
 * A stream that reads from one pipe and writes to another.
 *
 * It takes what is written at once, since node:http2 does not read while it writes: two sides that write into full pipes
 * would wait for each other. What waits here is bounded by the windows of the connection.
 *
 * It does not end with its pipes, and drops what is written after their end: node:http2 fails with an assertion when its
 * stream closes before its session. So the owner of the session has to destroy it.
 */
export function duplexOf(readable: Readable, writable: Writable): Duplex {
  const { Duplex } = stream()
  const duplex = new Duplex({
    read: () => void readable.resume(),
    write(chunk, _encoding, callback) {
      writable.write(chunk)
      callback()
    },
    final(callback) {
      writable.end()
      duplex.push(null)
      callback()
    },
  })
  readable.on('data', (chunk) => {
    if (!duplex.writableEnded && !duplex.push(chunk)) readable.pause()
  })
  return duplex
}

/** Lets the other side send ahead on all streams together. */
export function widen(session: Http2Session & { setLocalWindowSize(bytes: number): void }): void {
  // Bun 1.4 stops reading a connection whose window was set. Node.js before 20.20 reports a connection also after its end.
  if (process.versions.bun === undefined && !session.destroyed) session.setLocalWindowSize(WINDOW)
}

/**
 * Pings while the connection is open, and destroys it when the other side does not answer any more: a carrier may not report
 * that the other side has ended. It cannot answer while it is paused.
 */
export function ping(
  session: Http2Session,
  interval = INTERVAL_MS,
  most = MOST_UNANSWERED,
  isPaused = () => false,
): void {
  let unanswered = 0
  const timer = setInterval(() => {
    if (session.destroyed) clearInterval(timer)
    else if (isPaused()) unanswered = 0
    else if (unanswered++ < most)
      session.ping((error) => {
        if (error === null) unanswered = 0
      })
    else session.destroy(new Error('the other side does not answer any more'))
  }, interval)
  timer.unref()
}
