/** Two pipes as one stream, for node:http2. */
import type { Duplex, Readable, Writable } from 'node:stream'
import { stream } from './builtin.js'

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
