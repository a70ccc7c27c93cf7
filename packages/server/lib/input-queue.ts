/**
 * Content that arrives in requests, as an iterable for its reader.
 *
 * A request is answered when the reader has taken its piece. So the client sends the next one no earlier, and no content
 * piles up.
 */

interface Piece {
  data: Uint8Array
  taken: () => void
}

export class InputQueue implements AsyncIterableIterator<Uint8Array, undefined> {
  readonly #pieces: Piece[] = []
  #ended = false
  #wake = () => {};

  [Symbol.asyncIterator](): this {
    return this
  }

  /** Resolves when the reader took it, or takes no more. */
  push(data: Uint8Array): Promise<void> {
    if (this.#ended || data.length === 0) return Promise.resolve()
    return new Promise((taken) => {
      this.#pieces.push({ data, taken })
      this.#wake()
    })
  }

  /** Marks the end. */
  end(): void {
    this.#ended = true
    this.#wake()
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    for (;;) {
      const piece = this.#pieces.shift()
      if (piece !== undefined) {
        piece.taken()
        return { done: false, value: piece.data }
      }
      if (this.#ended) return { done: true, value: undefined }
      await new Promise<void>((wake) => {
        this.#wake = wake
      })
    }
  }

  /** The reader has ended. */
  async return(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.end()
    for (const { taken } of this.#pieces.splice(0)) taken()
    return { done: true, value: undefined }
  }
}
