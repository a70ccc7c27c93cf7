/**
 * The services of a sandbox that have no process, but will have another one. A rollback ends them like those that run.
 */

/** A service between two of its processes. */
export interface Revival {
  /** Aborted when a rollback ends the service. */
  readonly ended: AbortSignal
  /** Resolves when no rollback is going on. A process that began meanwhile would begin with the files of the past. */
  settled(): Promise<void>
  leave(): void
}

export class Revivals {
  readonly #ids = new Map<AbortController, string>()
  #rollback: Promise<unknown> | undefined

  /** Begins the time between two processes. */
  enter(id: string): Revival {
    const end = new AbortController()
    this.#ids.set(end, id)
    return {
      ended: end.signal,
      settled: async () => {
        while (this.#rollback !== undefined) await this.#rollback
      },
      leave: () => this.#ids.delete(end),
    }
  }

  /** Rolls back. Resolves also to the ids of the services that it has ended; one that fails ends none. */
  async during<T>(rollback: () => Promise<T>): Promise<[T, string[]]> {
    const before = this.#rollback
    const done = rollback()
    const all = Promise.allSettled([before, done]).then(() => {
      if (this.#rollback === all) this.#rollback = undefined
    })
    this.#rollback = all
    const value = await done
    const ended = [...this.#ids]
    this.#ids.clear()
    for (const [end] of ended) end.abort()
    return [value, ended.map(([, id]) => id)]
  }
}
