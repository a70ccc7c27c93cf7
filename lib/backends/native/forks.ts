/**
 * The open forks of a sandbox by their names, with the forks of its forks. A name is unique among all that come from one sandbox, so
 * that it can be the name of a host.
 */
import { invalidOption } from '../../base/errors.js'

interface Fork<T extends object> {
  /** Weak: a fork that its program has forgotten is collected. */
  backend: WeakRef<T>
  /** False until the fork has its files and its shells: nothing may use it before. */
  isOpen: boolean
}

export class Forks<T extends object> {
  readonly #above: Forks<T> | undefined
  readonly #first: Forks<T>
  readonly #forks = new Map<string, Fork<T>>()
  /** The last number after each name, so that none comes again. Only the first sandbox has them. */
  readonly #numbers = new Map<string, number>()

  /** `above`: those of the sandbox that this one was forked from. */
  constructor(above?: Forks<T>) {
    this.#above = above
    this.#first = above === undefined ? this : above.#first
  }

  /** Throws OptionError if an open fork has the name. */
  requireFree(name: string): void {
    if (this.#first.#find(name) !== undefined)
      throw invalidOption(
        `name: '${name}' is an open fork already; choose another name, or destroy that fork`,
      )
  }

  /** The next name with a number, like fork-1. */
  nextName(name: string): string {
    const numbers = this.#first.#numbers
    const number = (numbers.get(name) ?? 0) + 1
    numbers.set(name, number)
    const next = `${name}-${number}`
    return this.#first.#find(next) === undefined ? next : this.nextName(name)
  }

  /** Adds a fork of this sandbox, which is listed once it is open. */
  add(name: string, backend: T): void {
    const fork = { backend: new WeakRef(backend), isOpen: false }
    for (let at: Forks<T> | undefined = this; at !== undefined; at = at.#above) at.#forks.set(name, fork)
  }

  open(name: string): void {
    const fork = this.#forks.get(name)
    if (fork !== undefined) fork.isOpen = true
  }

  delete(name: string): void {
    for (let at: Forks<T> | undefined = this; at !== undefined; at = at.#above) at.#forks.delete(name)
  }

  /** The open ones, in the order of their making. */
  all(): [name: string, backend: T][] {
    const names = [...this.#forks].filter(([, { isOpen }]) => isOpen).map(([name]) => name)
    return names.flatMap((name) => {
      const backend = this.#find(name)
      return backend === undefined ? [] : [[name, backend] as [string, T]]
    })
  }

  #find(name: string): T | undefined {
    const backend = this.#forks.get(name)?.backend.deref()
    if (backend === undefined) this.#forks.delete(name)
    return backend
  }
}
