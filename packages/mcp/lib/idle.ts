/** Ends what has not been used for a time. */
import { clock } from 'nacre/internal'

export class IdleLimit {
  readonly #time: number
  readonly #timers = new Map<string, NodeJS.Timeout>()

  /** `time` in milliseconds. */
  constructor(time: number) {
    this.#time = time
  }

  add(key: string, end: () => unknown): void {
    const timer = clock.setTimeout(() => {
      this.#timers.delete(key)
      end()
    }, this.#time)
    this.#timers.set(key, timer.unref())
  }

  use(key: string): void {
    this.#timers.get(key)?.refresh()
  }

  remove(key: string): void {
    clock.clearTimeout(this.#timers.get(key))
    this.#timers.delete(key)
  }
}
