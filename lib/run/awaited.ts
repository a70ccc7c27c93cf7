/**
 * A promise that reports the first time that something waits for it with `await`, `then`, `catch` or `finally`. Holding or
 * inspecting it reports nothing.
 */
export class AwaitedPromise<T> extends Promise<T> {
  /** `then` returns ordinary promises. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise
  }

  #report: (() => void) | undefined

  /** Settles like `source`. Never causes an unhandled rejection itself. */
  static of<T>(source: Promise<T>, report: () => void): Promise<T> {
    const promise = new AwaitedPromise<T>((resolve, reject) => source.then(resolve, reject))
    promise.then(undefined, () => {})
    promise.#report = report
    return promise
  }

  // biome-ignore lint/suspicious/noThenProperty: it is a promise.
  override then<A = T, B = never>(
    fulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    const report = this.#report
    this.#report = undefined
    report?.()
    return super.then(fulfilled, rejected)
  }
}
