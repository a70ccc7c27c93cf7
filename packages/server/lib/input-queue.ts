/**
 * Input that arrives in requests, as an iterable for the command.
 *
 * A request is answered when the command has taken its piece. So the client sends the next one no earlier, and no input
 * piles up.
 */
import { onAbort } from 'nacre/internal'

interface Piece {
  data: Uint8Array | string
  taken: () => void
}

export class InputQueue implements AsyncIterableIterator<Uint8Array | string, undefined> {
  #pieces: Piece[] = []
  #ended = false
  #wake = () => {};

  [Symbol.asyncIterator](): this {
    return this
  }

  /** Resolves when the command took it, or takes no more input. A piece whose request is aborted before that is dropped. */
  push(data: Uint8Array | string, signal?: AbortSignal): Promise<void> {
    if (this.#ended || data.length === 0 || signal?.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const piece: Piece = {
        data,
        taken() {
          ignore()
          resolve()
        },
      }
      const ignore = onAbort(signal, () => {
        this.#pieces = this.#pieces.filter((other) => other !== piece)
        resolve()
      })
      this.#pieces.push(piece)
      this.#wake()
    })
  }

  /** Marks the end of the input. */
  end(): void {
    this.#ended = true
    this.#wake()
  }

  async next(): Promise<IteratorResult<Uint8Array | string, undefined>> {
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

  /** The command has ended. */
  async return(): Promise<IteratorResult<Uint8Array | string, undefined>> {
    this.end()
    for (const { taken } of this.#pieces.splice(0)) taken()
    return { done: true, value: undefined }
  }
}
