/** What a caller gives to write, as chunks and as the body of a request. */

import { AbortError } from '../../base/errors.js'
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
  #failure: { reason: unknown } | undefined

  constructor(chunks: AsyncIterator<Uint8Array>) {
    this.content = new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          try {
            const { done, value } = await chunks.next()
            if (done) controller.close()
            else controller.enqueue(value)
          } catch (error) {
            this.#failure = { reason: error }
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

  /** What a request has to say that sends this. What the source threw is the reason, and not that it could not go on. */
  async sent<T>(request: Promise<T>): Promise<T> {
    try {
      return await request
    } catch (error) {
      throw this.#failure && !(error instanceof AbortError) ? this.#failure.reason : error
    }
  }
}
