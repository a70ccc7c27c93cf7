/**
 * Claims whose creation was given up: they are deleted, and the deletion is repeated until the API server confirms it.
 *
 * The request that creates a claim may still be on its way then, so a missing claim is looked for once more a moment later.
 * One that arrives even later expires.
 */

import { Backoff, clock, pause } from 'nacre/internal'
import { type KubernetesApi, statusOf } from './api.js'
import { isOf } from './claim.js'

/** Milliseconds for which the caller waits. The work continues afterwards. */
const PATIENCE_MS = 2000
const MOST_ATTEMPTS = 20
/** Milliseconds that the end of the fleet may take. */
const CLOSE_MS = 5000
/** Milliseconds before the second look. */
const SECOND_LOOK_MS = 500

export class Leftovers {
  readonly #api: KubernetesApi
  readonly #pending = new Set<Promise<void>>()
  readonly #stop = new AbortController()

  constructor(api: KubernetesApi) {
    this.#api = api
  }

  /** Deletes a claim if it was created by this call. Resolves when it is deleted, or after two seconds. */
  async remove(id: string, nonce: string): Promise<void> {
    let done = () => {}
    const deleted = new Promise<void>((resolve) => {
      done = resolve
    })
    const work: Promise<void> = this.#remove(id, nonce, done).finally(() => {
      done()
      this.#pending.delete(work)
    })
    this.#pending.add(work)
    const late = new AbortController()
    await Promise.race([deleted, pause(PATIENCE_MS, late.signal)])
    late.abort()
  }

  /** Resolves when nothing is left to do, or after five seconds. What is left then expires. */
  async close(): Promise<void> {
    const late = clock.setTimeout(() => this.#stop.abort(), CLOSE_MS)
    await Promise.all(this.#pending)
    clock.clearTimeout(late)
  }

  async #remove(id: string, nonce: string, done: () => void): Promise<void> {
    const { signal } = this.#stop
    const backoff = new Backoff(100, 5000)
    let looks = 0
    for (let attempts = 0; attempts < MOST_ATTEMPTS && !signal.aborted; attempts++) {
      try {
        const claim = await this.#api.get(id, signal)
        if (claim !== undefined && !isOf(claim, nonce)) return
        if (claim !== undefined) {
          await this.#api.delete(id, claim.metadata.uid, signal)
          return
        }
        done()
        if (++looks > 1) return
        await pause(SECOND_LOOK_MS, signal)
      } catch (error) {
        // Without the right to look, there is nothing to do.
        if ([401, 403].includes(statusOf(error) ?? 0)) return
        await backoff.wait(signal)
      }
    }
  }
}
