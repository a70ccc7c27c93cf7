/**
 * A service on the server. `restarts`, `lastFailure` and `info` are the last known state.
 */

import type { LogEvent, ProcessInfo, ServiceFailure, ServiceHealth } from '../../calls/index.js'
import * as endpoints from '../../protocol/endpoints.js'
import type { ServiceBackend } from '../../sandbox/backend.js'
import { HttpProcess } from './process.js'
import { ResumingStream } from './resuming.js'

export class HttpService extends HttpProcess implements ServiceBackend {
  restarts = 0
  lastFailure: ServiceFailure | null = null
  /** Called for each process after the first, while the service is watched. */
  onStart = () => {}
  /** Called after a restart by this object while the service is not watched. */
  watchAgain = () => {}
  #isWatched = false
  #restarting: Promise<endpoints.NamedProcess> | undefined

  override get service(): ServiceBackend {
    return this
  }

  async health(): Promise<ServiceHealth> {
    const health = await this.connection.call(endpoints.health, { params: this.params })
    this.restarts = health.restarts
    this.lastFailure = health.lastFailure
    await this.refresh()
    return health
  }

  async restart(): Promise<void> {
    this.#restarting = this.connection.call(endpoints.restart, { params: this.params })
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
      return (await starts.next()).value ?? null
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

  #starts(after: number, signal?: AbortSignal): ResumingStream<endpoints.NamedProcess> {
    return new ResumingStream<endpoints.NamedProcess>(this.connection, {
      cursor: after,
      signal,
      subject: 'watching the service',
      request: (pid) => ({ method: 'GET', path: this.path('starts'), query: { pid } }),
      value: ({ process }) => ({ value: endpoints.getProcess.reply.decode(process), cursor: process.pid }),
    })
  }
}
