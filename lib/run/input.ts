/**
 * Feeds the input of a command or process from an async iterable, one item at a time: the next is asked for when the one
 * before was taken.
 */
import { inputBytes } from '../options/input.js'
import { readArgument } from '../options/read.js'

/** Whose input it is: a command or a process. */
export interface InputTarget {
  write(data: Uint8Array): Promise<void>
  closeInput(): void
  /** Ends it because of an exception of the source. */
  fail(error: unknown): void
}

export class InputFeed {
  readonly #iterator: AsyncIterator<unknown>
  #finished = false

  /** Opens the source before anything runs. Throws what the source throws, for instance a stream that is locked. */
  constructor(source: AsyncIterable<unknown>) {
    this.#iterator = source[Symbol.asyncIterator]()
  }

  /** Writes item by item, then closes the input. An exception of the source, or a bad item, fails the target. */
  async feed(target: InputTarget): Promise<void> {
    try {
      while (!this.#finished) {
        const { done, value } = await this.#iterator.next()
        if (done) {
          this.#finished = true
          target.closeInput()
        } else if (!this.#finished) {
          await target.write(readArgument(inputBytes, value, 'input'))
        }
      }
    } catch (error) {
      if (!this.#finished) target.fail(error)
      await this.close()
    }
  }

  /**
   * Lets go of the source when the command has ended. What the source does with that is nobody's concern any more:
   * an async generator may even be stuck in its own await for ever.
   */
  async close(): Promise<void> {
    if (this.#finished) return
    this.#finished = true
    try {
      await this.#iterator.return?.()
    } catch {
      // The run has its result; a source that fails to close cannot change it.
    }
  }
}
