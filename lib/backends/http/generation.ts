/**
 * The instance of the server that a client talks to.
 *
 * A server that restarts, and another server at the same address, have another instance. They refuse the requests that name
 * the old one before anything runs, and their replies are not accepted.
 */
import { INSTANCE_HEADER } from '../../protocol/headers.js'
import type { Route } from './route.js'

export class Generation {
  readonly #route: Pick<Route, 'isPinned' | 'instance'>
  #first: string | undefined

  constructor(route: Pick<Route, 'isPinned' | 'instance'>) {
    this.#route = route
  }

  /** The instance; undefined while it is not known. */
  get instance(): string | undefined {
    return this.#route.isPinned ? (this.#route.instance ?? this.#first) : undefined
  }

  /** The headers of requests that only this instance may answer. */
  get headers(): Record<string, string> {
    const { instance } = this
    return instance === undefined ? {} : { [INSTANCE_HEADER]: instance }
  }

  /** False for the reply of another instance. A reply without an instance is that of a proxy. */
  accepts({ headers }: Pick<Response, 'headers'>): boolean {
    if (!this.#route.isPinned) return true
    const instance = headers.get(INSTANCE_HEADER)
    if (instance === null) return true
    this.#first ??= instance
    return instance === this.instance
  }
}
