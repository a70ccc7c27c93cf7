/**
 * A background process on this process's engine. Its properties show the current state.
 */
import { OptionError } from '../../../base/errors.js'
import type { WaitLimits } from '../../../base/waiting.js'
import { within } from '../../../base/waiting.js'
import type { NativeProcessRef } from '../../../boundary/index.js'
import type {
  Encoding,
  LogEvent,
  LogLines,
  ProcessExit,
  ProcessInfo,
  ProcessLogs,
  ProcessStats,
  ProcessWaiting,
  WaitEnd,
} from '../../../calls/index.js'
import type { FoundLine } from '../../../protocol/endpoints.js'
import type { ReceivedMessages } from '../../../protocol/messages.js'
import type { KillRequest, LogLinesPlan, LogStreamPlan } from '../../../requests/logs.js'
import type { LogPlan, PortPlan, WaitForPlan } from '../../../requests/waits.js'
import type { HoldBackend, ProcessBackend, ServiceBackend } from '../../../sandbox/backend.js'
import type { Engine } from '../engine.js'
import { notInTime } from './failures.js'
import { exitOf, infoOf, type ProcessHandle } from './handle.js'
import { readLines } from './log-lines.js'
import { LogStream } from './log-stream.js'
import { readWhole } from './log-text.js'
import { type ReceivePlan, receive, sendLine } from './messages.js'
import { waitFor } from './wait-for.js'
import { waitForInput } from './wait-for-input.js'
import { waitForLog } from './wait-for-log.js'
import { waitForPort } from './wait-for-port.js'
import { waiting } from './waiting.js'
import { watch } from './watch.js'

export class LocalProcess implements ProcessBackend {
  readonly #engine: Engine
  readonly #current: () => ProcessHandle

  /** `current` returns the current process: a service can have several, one after another. */
  constructor(engine: Engine, current: () => ProcessHandle) {
    this.#engine = engine
    this.#current = current
  }

  get handle(): ProcessHandle {
    return this.#current()
  }

  get info(): ProcessInfo {
    const { state, input } = this.handle
    return infoOf(state, input)
  }

  get service(): ServiceBackend | undefined {
    return undefined
  }

  get hasPipe(): boolean {
    return this.handle.hasPipe
  }

  get hasTerminal(): boolean {
    return this.handle.hasTerminal
  }

  /** Does nothing: `info` always asks the engine. */
  async refresh(): Promise<void> {}

  async kill(request: KillRequest): Promise<boolean> {
    return this.handle.kill(request)
  }

  async wait(limits: WaitLimits): Promise<ProcessExit> {
    const { handle } = this
    const late = () => notInTime(this.#engine, handle, 'it ended', limits.timeout, 'PROCESS_WAIT_TIMEOUT')
    return exitOf(await within(limits, (stop) => handle.wait(stop), late))
  }

  async logs({ encoding }: { encoding: Encoding }): Promise<ProcessLogs<Encoding>> {
    return readWhole(this.#engine, this.handle.ref, encoding)
  }

  async logLines(plan: LogLinesPlan): Promise<LogLines<Encoding>> {
    return readLines(this.#engine, this.handle.ref, plan)
  }

  output(plan: LogStreamPlan): AsyncIterableIterator<LogEvent<Encoding>, undefined> {
    return new LogStream(this.#engine, this.#current, plan)
  }

  watch(wantsOutput: boolean): AsyncIterable<LogEvent> {
    return watch(this.#engine, this.handle, wantsOutput)
  }

  async waitForLog(plan: LogPlan): Promise<FoundLine> {
    return waitForLog(this.#engine, this.handle, plan)
  }

  async waitForInput(limits: WaitLimits): Promise<ProcessWaiting> {
    return waitForInput(this.#engine, this.handle, limits)
  }

  async waitForPort(plan: PortPlan): Promise<void> {
    return waitForPort(this.#engine, this.handle, plan)
  }

  async waitFor(plan: WaitForPlan): Promise<WaitEnd> {
    return waitFor(this.#engine, this.handle.ref, plan)
  }

  async hold(owner: string): Promise<HoldBackend> {
    return this.handle.hold(owner)
  }

  async receive(plan: ReceivePlan): Promise<ReceivedMessages> {
    return receive(this.#engine, this.#withChannel('messages'), plan)
  }

  async send(line: string): Promise<void> {
    await sendLine(this.#engine, this.#withChannel('send'), line)
  }

  async disconnect(): Promise<void> {
    const ref = this.#withChannel('disconnect')
    this.#engine.ask((native) => native.finishMessages(ref))
  }

  #withChannel(method: string): NativeProcessRef {
    const { hasChannel, ref } = this.handle
    if (hasChannel) return ref
    throw new OptionError('INVALID_OPTION', `${method} needs a process that was started with ipc: true`)
  }

  /** Resolves once the pipe took the data, so the writer waits for a process that does not read. */
  async write(data: Uint8Array, hold?: string): Promise<void> {
    const { ref, input } = this.handle
    input.require(hold)
    await this.#engine.call((native, id) => native.writeProcess(id, ref, data))
  }

  /** No effect if the input is already closed, or the process has ended. */
  async closeInput(hold?: string): Promise<void> {
    this.handle.input.require(hold)
    this.#engine.ask((native) => native.closeProcessInput(this.handle.ref))
  }

  async resize({ cols, rows }: { cols: number; rows: number }, hold?: string): Promise<boolean> {
    this.handle.input.require(hold)
    return this.#engine.ask((native) => native.resizeProcess(this.handle.ref, cols, rows)) ?? false
  }

  /** Reports that the reader has taken the output before this cursor. Only for a process with a window. */
  take(cursor: number): void {
    this.#engine.ask((native) => native.takeLog(this.handle.ref, cursor))
  }

  /** Sends a signal to the process group, without the escalation of a kill. False if the process has ended. */
  signal(signal: number): boolean {
    return this.#engine.ask((native) => native.signalProcess(this.handle.ref, signal)) ?? false
  }

  async stats(): Promise<ProcessStats> {
    const { ref } = this.handle
    return { ...(await this.#engine.call((native, id) => native.processStats(id, ref))) }
  }

  async waiting(): Promise<ProcessWaiting | null> {
    return waiting(this.#engine, this.handle.ref)
  }
}
