/**
 * The time to live of a sandbox: it is extended while the sandbox is used.
 *
 * Four times in that time, the lease looks whether there was a call since the last time, or still is. So a sandbox in use
 * costs at most four writes in its time to live, and an idle one ends after one to one and a quarter of it.
 */
import { clock } from 'nacre/internal'

/** Looks per time to live. */
const LOOKS = 4

export interface Leased {
  /** Milliseconds. */
  ttl: number
  /** Whether calls are pending. */
  isActive(): boolean
  /** The sandbox was used, and is to live for another time to live. */
  extend(): Promise<void>
  /** Receives what `extend` rejects with. */
  failed(error: unknown): void
}

export class Lease {
  readonly #leased: Leased
  #timer: ReturnType<typeof clock.setInterval> | undefined
  #isUsed = false
  #isExtending = false

  constructor(leased: Leased) {
    this.#leased = leased
  }

  /** Begins to look. */
  begin(): void {
    if (this.#timer !== undefined) return
    this.#timer = clock.setInterval(() => this.#look(), this.#leased.ttl / LOOKS)
    this.#timer.unref()
  }

  /** The sandbox is used now. */
  used(): void {
    this.#isUsed = true
    this.begin()
  }

  end(): void {
    clock.clearInterval(this.#timer)
  }

  #look(): void {
    if (!this.#isUsed && !this.#leased.isActive()) return
    this.#isUsed = false
    if (!this.#isExtending) void this.#extend()
  }

  async #extend(): Promise<void> {
    this.#isExtending = true
    try {
      await this.#leased.extend()
    } catch (error) {
      this.#leased.failed(error)
    } finally {
      this.#isExtending = false
    }
  }
}
