/**
 * Claims whose creation was given up: they are deleted, and the deletion is repeated until the API server confirms it.
 *
 * The request that creates a claim may still be on its way then, so a missing claim is looked for once more a moment later.
 * One that arrives even later expires.
 */
import { pause } from '../../base/waiting.js'
import { Backoff } from '../backoff.js'
import type { KubernetesApi } from './api.js'
import { isOf } from './claim.js'

/** Milliseconds for which the caller waits. The work continues afterwards. */
const PATIENCE_MS = 2000
const MOST_ATTEMPTS = 20
/** Milliseconds before the second look. */
const SECOND_LOOK_MS = 500

export class Leftovers {
  readonly #api: KubernetesApi
  readonly #pending = new Set<Promise<void>>()

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

  /** Resolves when nothing is left to do. */
  async settled(): Promise<void> {
    await Promise.all(this.#pending)
  }

  async #remove(id: string, nonce: string, done: () => void): Promise<void> {
    const never = new AbortController().signal
    const backoff = new Backoff(100, 5000)
    let looks = 0
    for (let attempts = 0; attempts < MOST_ATTEMPTS; attempts++) {
      try {
        const claim = await this.#api.get(id, undefined)
        if (claim !== undefined && !isOf(claim, nonce)) return
        if (claim !== undefined) {
          await this.#api.delete(id, claim.metadata.uid, undefined)
          return
        }
        done()
        if (++looks > 1) return
        await pause(SECOND_LOOK_MS, never)
      } catch {
        await backoff.wait(never)
      }
    }
  }
}
