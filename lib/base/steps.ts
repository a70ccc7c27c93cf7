/**
 * The public side of an iteration whose values arrive over time.
 *
 * A class, because a generator's `return()` would wait behind a `next()` that waits for a value.
 */
export abstract class Steps<T> implements AsyncIterableIterator<T, undefined> {
  #turn: Promise<unknown> = Promise.resolve()

  /** Produces the next value. Never runs concurrently with itself. */
  protected abstract step(): Promise<IteratorResult<T, undefined>>

  /** Ends the iteration, even while a step runs. */
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
