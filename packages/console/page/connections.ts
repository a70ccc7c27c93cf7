/**
 * The connections that the page keeps open. A browser allows six to a server, for all pages together, and then every other call
 * waits. Events take one, what is taken over up to three, output what is left of four: so one stays free for calls.
 */

const MOST = 4
const MOST_HELD = 3

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
    return this.#held + count <= MOST_HELD
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
    while (this.#reading < MOST - this.#held) {
      const start = this.#waiting.shift()
      if (start === undefined) return
      this.#reading++
      start()
    }
  }
}
