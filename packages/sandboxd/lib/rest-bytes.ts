/**
 * Sends the content of a file, as fast as the client takes it.
 */
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { ByteReply } from '@nacre/server/internal'

/** Resolves when everything was sent, or the client has disconnected. Rejects when the file could not be read. */
export async function sendBytes(
  outgoing: ServerResponse,
  { status, headers, first, source, length = Number.POSITIVE_INFINITY }: ByteReply,
  isHead: boolean,
): Promise<void> {
  try {
    outgoing.writeHead(status, headers)
    if (source === undefined || isHead) return void outgoing.end()
    let left = length
    let piece = first
    while (piece !== undefined && left > 0 && !outgoing.destroyed) {
      // A file that grows meanwhile is sent with the announced length.
      const own = piece.subarray(0, left)
      left -= own.length
      if (!outgoing.write(own)) await Promise.race([once(outgoing, 'drain'), once(outgoing, 'close')])
      if (left > 0) piece = await source.read()
    }
    if (left > 0 && left !== Number.POSITIVE_INFINITY && !outgoing.destroyed)
      throw new Error('the file has become shorter while it was sent')
    outgoing.end()
  } finally {
    source?.close()
  }
}
