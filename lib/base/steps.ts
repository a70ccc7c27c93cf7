/**
 * The outside of an iteration whose values arrive over time.
 *
 * A class and not a generator, whose `return()` would wait behind a `next()` that waits for a value.
 */
export abstract class Steps<T> implements AsyncIterableIterator<T, undefined> {
  #turn: Promise<unknown> = Promise.resolve()

  /** The next value. Runs once at a time. */
  protected abstract step(): Promise<IteratorResult<T, undefined>>

  /** Ends the iteration, also while a step runs. */
  protected abstract end(): void

  [Symbol.asyncIterator](): this {
    return this
  }

  /** Overlapping calls settle in order. */
  next(): Promise<IteratorResult<T, undefined>> {
    const step = this.#turn.then(() => this.step())
    this.#turn = step.catch(() => {})
    return step
  }

  async return(): Promise<IteratorResult<T, undefined>> {
    this.end()
    return { done: true, value: undefined }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return()
  }
}
