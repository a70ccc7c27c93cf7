/**
 * BullMQ's locks on the jobs of this host, extended in time by one timer.
 */

import type { Worker } from 'bullmq'
import { clock } from 'nacre/internal'

export class Locks {
  readonly #worker: Worker
  readonly #duration: number
  readonly #held = new Map<string, string>()
  #timer: NodeJS.Timeout | undefined
  #extending = false

  constructor(worker: Worker, duration: number) {
    this.#worker = worker
    this.#duration = duration
  }

  start(): void {
    this.#timer = clock.setInterval(() => void this.#extend(), this.#duration / 4)
  }

  stop(): void {
    clock.clearInterval(this.#timer)
  }

  hold(id: string, token: string): void {
    this.#held.set(id, token)
  }

  /** Forgets a lock, unless another attempt holds it already. */
  release(id: string, token: string): void {
    if (this.#held.get(id) === token) this.#held.delete(id)
  }

  /** A lock that is lost comes back with the job: BullMQ offers it again, and its new taker passes the lock on. */
  async #extend(): Promise<void> {
    if (this.#extending || this.#held.size === 0) return
    this.#extending = true
    const held = [...this.#held]
    try {
      const lost = await this.#worker.extendJobLocks(
        held.map(([id]) => id),
        held.map(([, token]) => token),
        this.#duration,
      )
      for (const [id, token] of held) if (lost.includes(id)) this.release(id, token)
    } catch {
      // The next turn tries again.
    } finally {
      this.#extending = false
    }
  }
}
