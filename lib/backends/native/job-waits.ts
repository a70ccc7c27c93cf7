/**
 * Waits for news of a job, ended by the caller's AbortSignal or the end of the sandbox.
 */
import { onAbort } from '../../base/abort.js'
import { engineError } from '../../base/errors.js'
import type { Engine } from './engine.js'

export class JobWaits {
  readonly #engine: Engine
  readonly #open = new Set<() => void>()

  constructor(engine: Engine) {
    this.#engine = engine
  }

  /**
   * Resolves when the job has more than `cursor` bytes of output or no process is left; for null, when the command has
   * ended. Also resolves when `stop` is aborted.
   */
  async news(jobId: string, cursor: number | null, stop: AbortSignal): Promise<void> {
    if (stop.aborted) return
    let release = () => {}
    let destroyed = false
    try {
      await new Promise<void>((resolve, reject) => {
        const { native, id } = this.#engine.begin(
          (handle, call) => handle.awaitJob(call, jobId, cursor),
          ({ kind, code, message }) => {
            if (kind === 'error') reject(engineError(code, message))
            else resolve()
          },
        )
        const abandon = () => native.abandon(id)
        const letGo = () => {
          destroyed = true
          abandon()
        }
        this.#open.add(letGo)
        const ignore = onAbort(stop, abandon)
        release = () => {
          ignore()
          this.#open.delete(letGo)
        }
      })
    } finally {
      release()
    }
    if (destroyed) throw engineError('SANDBOX_DESTROYED', undefined)
  }

  /** Ends all waits. */
  letGo(): void {
    for (const letGo of this.#open) letGo()
  }
}
