/**
 * A background process on the server. What it says of itself is as it was last heard of: by `getStatus`, `wait`, `kill`, and
 * when it was found or started.
 */
import type { RemoteProcess as PublicProcess } from '../../client.js'
import type {
  Encoding,
  ExitReason,
  KillOptions,
  LogEvent,
  LogMatch,
  LogOptions,
  LogStreamOptions,
  ProcessExit,
  ProcessInfo,
  ProcessLogs,
  ProcessStats,
  ProcessStatus,
  Signal,
  WaitForLogOptions,
  WaitForPortOptions,
  WaitOptions,
} from '../../index.js'
import { SandboxError } from '../errors.js'
import { inputBytes } from '../options/input.js'
import { terminal } from '../options/limits.js'
import { planLogStream, planLogs } from '../options/logs.js'
import { readArgument, readOptions } from '../options/read.js'
import { processSignal } from '../options/signals.js'
import {
  planWait,
  planWaitForExit,
  planWaitForLog,
  planWaitForPort,
  type WaitLimits,
} from '../options/waits.js'
import { killOptions } from '../protocol/process-options.js'
import type { Connection } from './connection.js'
import { ResumingStream } from './resuming.js'
import { encodeBytes, logEventOf, logsOf, piecesOf, type WireLogs } from './wire.js'

/** As it comes in JSON. What is not known yet is left out. */
export type WireProcess = Omit<ProcessInfo, 'startTime' | 'endTime' | 'reason'> & {
  startTime: string
  endTime?: string
  reason?: ExitReason
}

export class RemoteProcess implements PublicProcess {
  readonly #connection: Connection
  #info: WireProcess

  constructor(connection: Connection, info: WireProcess) {
    this.#connection = connection
    this.#info = info
  }

  get id(): string {
    return this.#info.id
  }

  get pid(): number {
    return this.#info.pid
  }

  get command(): string {
    return this.#info.command
  }

  get sessionId(): string {
    return this.#info.sessionId
  }

  get status(): ProcessStatus {
    return this.#info.status
  }

  get startTime(): Date {
    return new Date(this.#info.startTime)
  }

  get endTime(): Date | null {
    return this.#info.endTime === undefined ? null : new Date(this.#info.endTime)
  }

  get exitCode(): number | null {
    return this.#info.exitCode
  }

  get signal(): NodeJS.Signals | null {
    return this.#info.signal
  }

  get reason(): ExitReason | null {
    return this.#info.reason ?? null
  }

  async kill(signal?: Signal, options?: KillOptions): Promise<boolean> {
    const { forceKillAfterDelay } = readOptions(killOptions, options, 'kill')
    const number = signal === undefined ? undefined : readArgument(processSignal, signal, 'signal')
    const body = { signal: number, forceKillAfterDelay }
    const { killed, process } = await this.#call<{ killed: boolean; process: WireProcess }>('kill', body)
    this.#info = process
    return killed
  }

  async wait(options?: WaitOptions): Promise<ProcessExit> {
    return this.#wait(planWait(options))
  }

  async waitForExit(timeout?: number): Promise<ProcessExit> {
    return this.#wait(planWaitForExit(timeout))
  }

  async getStatus(): Promise<ProcessStatus> {
    await this.refresh()
    return this.status
  }

  async getLogs<E extends Encoding = 'utf8'>(options?: LogOptions<E>): Promise<ProcessLogs<E>> {
    const { encoding } = planLogs(options, 'getLogs')
    const logs = await this.#connection.call<WireLogs>({
      method: 'GET',
      path: this.#path('logs'),
      query: { encoding },
    })
    return logsOf(logs, encoding) as ProcessLogs<E>
  }

  output<E extends Encoding = 'utf8'>(
    options?: LogStreamOptions<E>,
  ): AsyncIterableIterator<LogEvent<E>, undefined> {
    const stream: AsyncIterableIterator<LogEvent<Encoding>, undefined> = logStream(
      this.#connection,
      this.id,
      options,
    )
    return stream as AsyncIterableIterator<LogEvent<E>, undefined>
  }

  async waitForLog(pattern: string | RegExp, options?: WaitForLogOptions): Promise<LogMatch> {
    const { pattern: checked, since, timeout, signal } = planWaitForLog(pattern, options)
    const wire = pattern instanceof RegExp ? { source: pattern.source, flags: pattern.flags } : pattern
    const { line } = await this.#call<{ line: string }>(
      'wait-for-log',
      { pattern: wire, since, timeout },
      signal,
    )
    return checked.find(line) ?? { line }
  }

  async waitForPort(port: number, options?: WaitForPortOptions): Promise<void> {
    const { http, interval, timeout, signal } = planWaitForPort(port, options)
    const how = http === undefined ? { mode: 'tcp' } : { mode: 'http', ...http }
    await this.#call('wait-for-port', { port, ...how, interval, timeout }, signal)
  }

  async write(data: string | Uint8Array): Promise<void> {
    for (const piece of piecesOf(readArgument(inputBytes, data, 'data')))
      await this.#call('input', { data: encodeBytes(piece) })
  }

  async closeStdin(): Promise<void> {
    await this.#call('input', { end: true })
  }

  async resize(cols: number, rows: number): Promise<boolean> {
    const size = readArgument(terminal, { cols, rows }, 'size')
    const path = this.#path('resize')
    const { resized } = await this.#connection.call<{ resized: boolean }>({
      ...{ path, body: size, isIdempotent: true },
    })
    return resized
  }

  async stats(): Promise<ProcessStats> {
    return this.#connection.call({ method: 'GET', path: this.#path('stats') })
  }

  toJSON(): ProcessInfo {
    const { id, pid, command, sessionId, status, startTime, endTime, exitCode, signal, reason } = this
    return { id, pid, command, sessionId, status, startTime, endTime, exitCode, signal, reason }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill().catch((error) => {
      if (!isGone(error)) throw error
    })
  }

  /** Asks how it is. One that has been forgotten meanwhile stays as it was. */
  protected async refresh(): Promise<void> {
    try {
      this.#info = await this.#connection.call<WireProcess>({ method: 'GET', path: this.#path('') })
    } catch (error) {
      if (!isGone(error)) throw error
    }
  }

  /** The same for what a reply has told. */
  protected update(info: WireProcess): void {
    this.#info = info
  }

  async #wait({ timeout, signal }: WaitLimits): Promise<ProcessExit> {
    const reply = await this.#connection.call<{ exit: ProcessExit; process: WireProcess }>({
      ...{ path: this.#path('wait'), body: { timeout }, signal, subject: 'the wait', waits: true },
      // With a time limit, a second request would begin to count anew.
      isIdempotent: timeout === 0,
    })
    this.#info = reply.process
    return reply.exit
  }

  #call<T>(what: string, body: object, signal?: AbortSignal): Promise<T> {
    return this.#connection.call<T>({
      path: this.#path(what),
      body,
      signal,
      subject: 'the wait',
      waits: true,
    })
  }

  #path(what: string): string {
    return processPath(this.id, what)
  }
}

export function processPath(id: string, what: string): string {
  return `/v1/processes/${id}${what === '' ? '' : `/${what}`}`
}

/** What a process prints, over as many connections as it takes. */
export function logStream(
  connection: Connection,
  processId: string,
  options: unknown,
  owner = 'output',
): ResumingStream<LogEvent<Encoding>> {
  const { since, follow, signal, encoding } = planLogStream(options, owner)
  return new ResumingStream<LogEvent<Encoding>>(connection, {
    cursor: since,
    signal,
    subject: 'reading the log',
    request: (cursor) => ({
      method: 'GET',
      path: processPath(processId, 'output'),
      query: { since: cursor, follow, encoding },
    }),
    value(data) {
      const event = logEventOf(data, encoding)
      return event.type === 'exit' ? { value: event } : { value: event, cursor: event.cursor }
    },
  })
}

/** Nothing of it is left when the sandbox has been destroyed, or the process forgotten. */
export function isGone(error: unknown): boolean {
  return error instanceof SandboxError && ['SANDBOX_DESTROYED', 'PROCESS_NOT_FOUND'].includes(error.code)
}
