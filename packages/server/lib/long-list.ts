/**
 * Replies that are one long list, as JSON in pieces: a client may list 200,000 files, and one JSON text of them would stop the
 * server for a second. Each item has a line of its own, so that clients parse it alone. Other readers find ordinary JSON.
 */
import { timers } from 'nacre/internal'
import { encodeReply, type Sendable } from './wire.js'

/** Items that are sent in one piece, in a turn of the event loop. */
export const ITEMS_OF_A_PIECE = 500

const encoder = new TextEncoder()
const text = (pieces: string[]) => encoder.encode(pieces.join(''))

/** The pieces of a reply; undefined for one that is not a list, or short. */
export function listPieces<T>(reply: Sendable<T>, value: T): AsyncGenerator<Uint8Array> | undefined {
  if (reply.list === undefined || !Array.isArray(value)) return undefined
  return value.length > ITEMS_OF_A_PIECE ? pieces(reply, value) : undefined
}

async function* pieces<T>(reply: Sendable<T>, items: unknown[]): AsyncGenerator<Uint8Array> {
  for (let start = 0; start < items.length; start += ITEMS_OF_A_PIECE) {
    const part = items.slice(start, start + ITEMS_OF_A_PIECE)
    const [[key, json] = ['', []]] = Object.entries(encodeReply(reply, part as T))
    const lines = (json as unknown[]).map((item) => JSON.stringify(item)).join(',\n')
    yield text([start === 0 ? `{${JSON.stringify(key)}:[\n` : ',\n', lines])
    await timers.setImmediate()
  }
  yield text(['\n]}'])
}

/** The pieces as a body. The next one is made when the client has taken the previous one. */
export function bodyOfPieces(
  pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): ReadableStream<Uint8Array> {
  const iterator = Symbol.asyncIterator in pieces ? pieces[Symbol.asyncIterator]() : pieces[Symbol.iterator]()
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { value } = await iterator.next()
        if (value === undefined) controller.close()
        else controller.enqueue(value)
      },
      async cancel() {
        await iterator.return?.()
      },
    },
    { highWaterMark: 0 },
  )
}
