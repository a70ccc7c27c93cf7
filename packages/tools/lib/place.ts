/** Where the tools run: in a sandbox that was given, or in one that opens with the first call. */
import type { AnySandbox } from 'nacre'
import { clock, inTime, isCode } from 'nacre/internal'
import type { OpenSandbox, ToolContext } from './public.js'
import type { Host, Scope } from './scope.js'

const PROGRESS_INTERVAL = 1000
const CLOSE_LIMIT = 10_000

/** A sandbox that is not open yet. */
export interface Opening {
  readonly startedAt: number
  /** What takes long. */
  step: string
  /** Rejects if it cannot be opened. */
  readonly done: Promise<void>
}

export class Place {
  readonly #hostOf: (sandbox: AnySandbox) => Host
  readonly #open: OpenSandbox | undefined
  readonly #stop = new AbortController()
  #host: Host | undefined
  #opening: Opening | undefined

  constructor(given: AnySandbox | OpenSandbox, hostOf: (sandbox: AnySandbox) => Host) {
    this.#hostOf = hostOf
    if (typeof given === 'function') this.#open = given
    else this.#host = hostOf(given)
  }

  get isOpen(): boolean {
    return this.#host !== undefined
  }

  get scopes(): Scope[] {
    return this.#host?.scopes ?? []
  }

  /** Waits for the sandbox, but only until a moment of `performance.now()`. Rejects if it cannot be opened. */
  async host(until: number, { signal, onProgress }: ToolContext): Promise<Host | Opening> {
    if (this.#host !== undefined) return this.#host
    this.#opening ??= this.#begin()
    const opening = this.#opening
    for (;;) {
      const left = until - clock.performance.now()
      const done = await inTime(Math.min(PROGRESS_INTERVAL, left), opening.done)
      if (this.#host !== undefined) return this.#host
      if (done !== undefined || left <= PROGRESS_INTERVAL || signal?.aborted) return opening
      const seconds = (clock.performance.now() - opening.startedAt) / 1000
      onProgress?.({ seconds, message: opening.step })
    }
  }

  /** Whether the next call opens another sandbox, because this one is lost. */
  leave(host: Host, error: unknown): boolean {
    if (this.#open === undefined || !isCode(error, 'SANDBOX_LOST')) return false
    if (this.#host === host) {
      this.#host = undefined
      void end(host)
    }
    return true
  }

  /** Ends what the tools have started, and the sandbox if they have opened it. */
  async close(): Promise<void> {
    this.#stop.abort()
    await this.#opening?.done.catch(() => {})
    if (this.#host === undefined) return
    if (this.#open === undefined) await this.#host.close()
    else await end(this.#host)
  }

  #begin(): Opening {
    const open = async () => {
      const { signal } = this.#stop
      try {
        const onProgress = (step: string) => {
          opening.step = step
        }
        const sandbox = await this.#open?.({ signal, onProgress })
        if (sandbox === undefined) return
        if (signal.aborted) await sandbox.destroy()
        else this.#host = this.#hostOf(sandbox)
      } finally {
        this.#opening = undefined
      }
    }
    const opening: Opening = {
      startedAt: clock.performance.now(),
      step: 'opening the sandbox',
      done: later(open),
    }
    // A later call tries again.
    opening.done.catch(() => {})
    return opening
  }
}

/** Calls a function that may throw, and not before this one has returned. */
async function later(run: () => Promise<void>): Promise<void> {
  await null
  await run()
}

async function end(host: Host): Promise<void> {
  // One that does not answer must not keep the program.
  await inTime(CLOSE_LIMIT, host.close()).catch(() => {})
  await host.sandbox.destroy().catch(() => {})
}
