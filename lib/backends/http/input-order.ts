/**
 * The calls for one input, one after another: requests can overtake each other. A command and the process that it becomes
 * share it.
 */
export class InputOrder {
  /** Settles after the calls so far. */
  #last: Promise<unknown> = Promise.resolve()

  add(call: () => Promise<void>): Promise<void> {
    const done = this.#last.then(call)
    this.#last = done.catch(() => {})
    return done
  }
}
