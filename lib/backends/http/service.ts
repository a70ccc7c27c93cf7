/**
 * A service on the server. `restarts`, `lastFailure` and `info` are the last known state.
 */
import type { LogEvent, ProcessInfo, ServiceFailure, ServiceHealth } from '../../public/index.js'
import type { ServiceBackend } from '../../sandbox/backend.js'
import type { Connection } from './connection.js'
import { HttpProcess, infoOf, type WireProcess } from './process.js'
import { ResumingStream } from './resuming.js'

type WireFailure = Omit<ServiceFailure, 'endTime'> & { endTime: string }
type WireHealth = Omit<ServiceHealth, 'lastFailure'> & { lastFailure?: WireFailure }

export class HttpService extends HttpProcess implements ServiceBackend {
  readonly #connection: Connection
  restarts = 0
  lastFailure: ServiceFailure | null = null
  /** Called for each process after the first, while the service is watched. */
  onStart = () => {}
  /** Called after a restart by this object while the service is not watched. */
  watchAgain = () => {}
  #isWatched = false
  #restarting: Promise<WireProcess> | undefined

  constructor(connection: Connection, info: WireProcess, hasTerminal: boolean) {
    super(connection, info, hasTerminal)
    this.#connection = connection
  }

  override get service(): ServiceBackend {
    return this
  }

  async health(): Promise<ServiceHealth> {
    const path = this.path('health')
    const { lastFailure, ...rest } = await this.#connection.call<WireHealth>({ method: 'GET', path })
    this.restarts = rest.restarts
    this.lastFailure =
      lastFailure === undefined ? null : { ...lastFailure, endTime: new Date(lastFailure.endTime) }
    await this.refresh()
    return { ...rest, lastFailure: this.lastFailure }
  }

  async restart(): Promise<void> {
    const path = this.path('restart')
    this.#restarting = this.#connection.call<WireProcess>({ path, waits: true })
    try {
      this.update(await this.#restarting)
    } finally {
      this.#restarting = undefined
    }
    if (!this.#isWatched) this.watchAgain()
  }

  async successor(pid: number, stop: AbortSignal): Promise<ProcessInfo | null> {
    const starts = this.#starts(pid, stop)
    try {
      const { value } = await starts.next()
      return value === undefined ? null : infoOf(value)
    } finally {
      await starts.return()
    }
  }

  /** The events of all its processes, until none follows by itself. */
  override async *watch(wantsOutput: boolean): AsyncGenerator<LogEvent, undefined> {
    this.#isWatched = true
    const starts = this.#starts(this.info.pid)
    try {
      for (;;) {
        const next = starts.next()
        // It is reported once the events before it have been.
        next.catch(() => {})
        yield* super.watch(wantsOutput)
        const started = (await next).value ?? (await this.#restarting?.catch(() => undefined))
        if (started === undefined) return undefined
        this.update(started)
        this.onStart()
      }
    } finally {
      this.#isWatched = false
      await starts.return()
    }
  }

  #starts(after: number, signal?: AbortSignal): ResumingStream<WireProcess> {
    return new ResumingStream<WireProcess>(this.#connection, {
      cursor: after,
      signal,
      subject: 'watching the service',
      request: (pid) => ({ method: 'GET', path: this.path('starts'), query: { pid } }),
      value: ({ process }) => ({ value: process, cursor: process.pid }),
    })
  }
}
