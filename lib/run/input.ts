/**
 * Feeds the input of a command or process from an async iterable, one item at a time: it requests the next item once the
 * pipe took the previous one.
 */

import { inputBytes } from '../schema/command.js'
import { readArgument } from '../schema/read.js'

/** The command or process that reads the input. */
export interface InputTarget {
  write(data: Uint8Array): Promise<void>
  closeInput(): void
  /** Kills it because of an exception of the source. */
  fail(error: unknown): void
}

export class InputFeed {
  readonly #iterator: AsyncIterator<unknown>
  #finished = false

  /** Opens the source before anything runs. Rethrows its exceptions, such as for a locked stream. */
  constructor(source: AsyncIterable<unknown>) {
    this.#iterator = source[Symbol.asyncIterator]()
  }

  /** Writes all items, then closes the input. An exception of the source, or a bad item, fails the target. */
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
   * Releases the source after the command has ended. Callers do not wait for it: an async generator may be stuck in its own
   * await forever.
   */
  async close(): Promise<void> {
    if (this.#finished) return
    this.#finished = true
    try {
      await this.#iterator.return?.()
    } catch {
      // The run already has its result; a source that fails to close cannot change it.
    }
  }
}
