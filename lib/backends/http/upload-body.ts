/** What a caller gives to write, as chunks and as the body of a request. */

import { inputBytes } from '../../schema/command.js'
import { readArgument } from '../../schema/read.js'
/**
 * The chunks of a source, checked. Empty ones are left out: they would not count as chunks of a body. Not a generator, whose
 * `return()` would wait behind a `next()` that waits for the source.
 */
export function chunksOf(source: AsyncIterable<unknown> | Iterable<unknown>): AsyncIterator<Uint8Array> {
  const iterator = Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]()
  return {
    async next() {
      for (;;) {
        const { done, value } = await iterator.next()
        if (done) return { done, value: undefined }
        const bytes = readArgument(inputBytes, value, 'data')
        if (bytes.length > 0) return { value: bytes }
      }
    },
    async return() {
      await iterator.return?.()
      return { done: true, value: undefined }
    },
  }
}

/** The chunks of a source as the body of a request. */
export class Upload {
  readonly content: ReadableStream<Uint8Array>
  failed = false
  failure: unknown

  constructor(chunks: AsyncIterator<Uint8Array>) {
    this.content = new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          try {
            const { done, value } = await chunks.next()
            if (done) controller.close()
            else controller.enqueue(value)
          } catch (error) {
            this.failed = true
            this.failure = error
            controller.error(error)
            Promise.resolve(chunks.return?.()).catch(() => {})
          }
        },
        cancel() {
          Promise.resolve(chunks.return?.()).catch(() => {})
        },
      },
      { highWaterMark: 0 },
    )
  }
}
