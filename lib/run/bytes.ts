/**
 * The bytes of a stream's output as a ReadableStream of the web platform.
 */
import type { Item } from './feed.js'
import type { Reader, Translator } from './reader.js'

const NONE: readonly Uint8Array[] = []

export class ByteTranslator implements Translator<Uint8Array> {
  readonly throws = true
  readonly mostBytes = Number.POSITIVE_INFINITY
  readonly #streams: readonly number[]

  constructor(streams: readonly number[]) {
    this.#streams = streams
  }

  translate(item: Item): readonly Uint8Array[] {
    return item.type === 'output' && this.#streams.includes(item.stream) ? [item.data] : NONE
  }
}

/** Reads only on demand, so that unread output waits in the engine instead of here. */
export function readableStream(reader: Reader<Uint8Array>): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await reader.next()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      async cancel() {
        await reader.return()
      },
    },
    { highWaterMark: 0 },
  )
}
