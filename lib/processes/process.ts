/**
 * A background process as callers hold it. It says what is known at the moment it is asked; what waits, reads or writes
 * is elsewhere.
 */
import { inspect } from 'node:util'
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
  Process as PublicProcess,
  Signal,
  WaitForLogOptions,
  WaitForPortOptions,
  WaitOptions,
} from '../../index.js'
import type { Engine } from '../engine.js'
import { OptionError, SandboxError } from '../errors.js'
import { inputBytes } from '../options/input.js'
import { terminal } from '../options/limits.js'
import { planKill, planLogStream, planLogs } from '../options/logs.js'
import { readArgument } from '../options/read.js'
import {
  planWait,
  planWaitForExit,
  planWaitForLog,
  planWaitForPort,
  type WaitLimits,
} from '../options/waits.js'
import { notInTime } from './failures.js'
import { exitOf, type ProcessHandle } from './handle.js'
import { LogStream } from './log-stream.js'
import { readWhole } from './log-text.js'
import { readStats } from './stats.js'
import { closeInput, write } from './stdin.js'
import { waitForLog } from './wait-for-log.js'
import { waitForPort } from './wait-for-port.js'
import { within } from './waiting.js'

export class Process implements PublicProcess {
  readonly #engine: Engine
  readonly #current: () => ProcessHandle

  /** `current` gives the process that is meant at the moment: a service can have several, one after the other. */
  constructor(engine: Engine, current: () => ProcessHandle) {
    this.#engine = engine
    this.#current = current
  }

  /** Whether it was started with `pty`. */
  static hasTerminal(process: PublicProcess): boolean {
    return process instanceof Process && process.#current().hasTerminal
  }

  get id(): string {
    return this.#current().id
  }

  get pid(): number {
    return this.#current().state.pid
  }

  get command(): string {
    return this.#current().state.command
  }

  get sessionId(): string {
    return this.#current().state.sessionId
  }

  get status(): ProcessStatus {
    return this.#current().state.status
  }

  get startTime(): Date {
    return new Date(this.#current().state.startedAt)
  }

  get endTime(): Date | null {
    const { endedAt } = this.#current().state
    return endedAt === undefined ? null : new Date(endedAt)
  }

  get exitCode(): number | null {
    return exitOf(this.#current().state).exitCode
  }

  get signal(): NodeJS.Signals | null {
    return exitOf(this.#current().state).signal
  }

  get reason(): ExitReason | null {
    return this.#current().state.reason ?? null
  }

  async kill(signal?: Signal, options?: KillOptions): Promise<boolean> {
    const handle = this.#current()
    return handle.kill(planKill(signal, options, handle.killDefaults, 'kill'))
  }

  async wait(options?: WaitOptions): Promise<ProcessExit> {
    return this.#wait(planWait(options))
  }

  async waitForExit(timeout?: number): Promise<ProcessExit> {
    return this.#wait(planWaitForExit(timeout))
  }

  async getStatus(): Promise<ProcessStatus> {
    return this.status
  }

  async getLogs<E extends Encoding = 'utf8'>(options?: LogOptions<E>): Promise<ProcessLogs<E>> {
    const { encoding } = planLogs(options, 'getLogs')
    return (await readWhole(this.#engine, this.id, encoding)) as ProcessLogs<E>
  }

  output<E extends Encoding = 'utf8'>(
    options?: LogStreamOptions<E>,
  ): AsyncIterableIterator<LogEvent<E>, undefined> {
    const plan = planLogStream(options, 'output')
    const stream: AsyncIterableIterator<LogEvent<Encoding>, undefined> = new LogStream(
      this.#engine,
      this.#current,
      plan,
    )
    return stream as AsyncIterableIterator<LogEvent<E>, undefined>
  }

  async waitForLog(pattern: string | RegExp, options?: WaitForLogOptions): Promise<LogMatch> {
    return waitForLog(this.#engine, this.#current(), planWaitForLog(pattern, options))
  }

  async waitForPort(port: number, options?: WaitForPortOptions): Promise<void> {
    return waitForPort(this.#engine, this.#current(), planWaitForPort(port, options))
  }

  async write(data: string | Uint8Array): Promise<void> {
    const bytes = readArgument(inputBytes, data, 'data')
    await write(this.#engine, this.#piped('write'), bytes)
  }

  async closeStdin(): Promise<void> {
    closeInput(this.#engine, this.#piped('closeStdin'))
  }

  resize(cols: number, rows: number): boolean {
    const size = readArgument(terminal, { cols, rows }, 'size')
    const handle = this.#current()
    if (!handle.hasTerminal)
      throw new OptionError('INVALID_OPTION', 'resize needs a process that was started with pty')
    return this.#engine.ask((native) => native.resizeProcess(handle.id, size.cols, size.rows)) ?? false
  }

  async stats(): Promise<ProcessStats> {
    return readStats(this.#engine, this.#current())
  }

  toJSON(): ProcessInfo {
    const { id, pid, command, sessionId, status, startTime, endTime, exitCode, signal, reason } = this
    return { id, pid, command, sessionId, status, startTime, endTime, exitCode, signal, reason }
  }

  /** So that console.log shows what it is. */
  [inspect.custom](): ProcessInfo {
    return this.toJSON()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill().catch(ignoreGone)
  }

  #piped(method: string): ProcessHandle {
    const handle = this.#current()
    if (handle.hasPipe) return handle
    throw new OptionError('INVALID_OPTION', `${method} needs a process that was started with input: 'pipe'`)
  }

  async #wait(limits: WaitLimits): Promise<ProcessExit> {
    const handle = this.#current()
    const late = () => notInTime(this.#engine, handle, 'it ended', limits.timeout)
    return exitOf(await within(limits, (stop) => handle.wait(stop), late))
  }
}

/** Nothing of it is left when the sandbox has been destroyed, or the process forgotten. */
function ignoreGone(error: unknown): void {
  const gone = ['SANDBOX_DESTROYED', 'PROCESS_NOT_FOUND']
  if (!(error instanceof SandboxError && gone.includes(error.code))) throw error
}
