/** bash: a session of nacre, which keeps variables, functions and the directory. */
import type { Session } from 'nacre'
import type { Hosted } from '../hosted.js'
import { type Code, type Kernel, line } from './kernel.js'

interface Kept {
  session: string
  count: number
}

export class BashKernel implements Kernel {
  readonly #hosted: Hosted
  readonly #cwd: string
  #session: Session | undefined
  #count: number

  constructor(hosted: Hosted, cwd: string, kept?: Kept) {
    this.#hosted = hosted
    this.#cwd = cwd
    this.#session = kept && hosted.shells.get(kept.session)
    this.#count = kept?.count ?? 0
  }

  async *run({ code, env }: Code, signal: AbortSignal): AsyncGenerator<string> {
    this.#session ??= await this.#hosted.sandbox.createSession({ cwd: this.#cwd })
    if (signal.aborted) return
    this.#count += 1
    const running = this.#session.execStream(code, { env })
    const stop = () => running.kill().catch(() => {})
    signal.addEventListener('abort', stop)
    try {
      for await (const event of running) {
        if (event.type === 'error') throw event.error
        if (event.type === 'stdout' || event.type === 'stderr')
          // In nanoseconds.
          yield line({ type: event.type, text: event.data, timestamp: Date.now() * 1e6 })
        else if (event.type === 'complete' && event.exitCode !== 0) {
          const value = event.exitCode === null ? `signal ${event.signal}` : `exit status ${event.exitCode}`
          yield line({ type: 'error', name: 'CommandFailed', value, traceback: '' })
        }
      }
    } finally {
      signal.removeEventListener('abort', stop)
    }
    yield line({ type: 'number_of_executions', execution_count: this.#count })
    yield line({ type: 'end_of_execution' })
  }

  isInMemory(): boolean {
    return false
  }

  keep(): Kept | undefined {
    return this.#session && { session: this.#session.id, count: this.#count }
  }

  async end(): Promise<void> {
    const session = this.#session
    this.#session = undefined
    if (session !== undefined) await this.#hosted.sandbox.deleteSession(session.id)
  }
}
