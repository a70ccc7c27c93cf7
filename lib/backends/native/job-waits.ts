/**
 * Waits for news of a job, ended by the caller's AbortSignal or the end of the sandbox.
 */
import { engineError } from '../../base/errors.js'
import type { Engine } from './engine.js'

export class JobWaits {
  readonly #engine: Engine
  readonly #stop = new AbortController()

  constructor(engine: Engine) {
    this.#engine = engine
  }

  /**
   * Resolves when the job has more than `cursor` bytes of output or no process is left; for null, when the command has
   * ended. Also resolves when `stop` is aborted.
   */
  async news(jobId: string, cursor: number | null, stop: AbortSignal): Promise<void> {
    if (stop.aborted) return
    const { signal } = this.#stop
    await this.#engine.call((native, id) => native.awaitJob(id, jobId, cursor), stop, signal)
    if (signal.aborted) throw engineError('SANDBOX_DESTROYED', undefined)
  }

  /** Ends all waits. */
  letGo(): void {
    this.#stop.abort()
  }
}
