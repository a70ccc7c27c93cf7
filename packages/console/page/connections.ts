/**
 * The connections that the page keeps open. A browser allows six to a server, for all its tabs, and then every other call waits.
 * Events take one, and what is taken over up to three. Output takes what is left of three, at least one.
 */

const MOST = 3

export class Connections {
  #held = 0
  #reading = 0
  readonly #waiting: (() => void)[] = []

  /** Whether something else wants to read output. */
  get isWanted(): boolean {
    return this.#waiting.length > 0
  }

  /** Whether so many more can be held. */
  canHold(count: number): boolean {
    return this.#held + count <= MOST
  }

  hold(count: number): void {
    this.#held += count
  }

  release(count: number): void {
    this.#held -= count
    this.#next()
  }

  /** Runs `read` when its turn has come. */
  async read<T>(read: () => Promise<T>): Promise<T> {
    await new Promise<void>((resolve) => {
      this.#waiting.push(resolve)
      this.#next()
    })
    try {
      return await read()
    } finally {
      this.#reading--
      this.#next()
    }
  }

  #next(): void {
    while (this.#reading < Math.max(1, MOST - this.#held)) {
      const start = this.#waiting.shift()
      if (start === undefined) return
      this.#reading++
      start()
    }
  }
}
