/**
 * A background process on this process's engine. Its properties show the current state.
 */
import { invalidOption } from '../../../base/errors.js'
import type { WaitLimits } from '../../../base/waiting.js'
import { within } from '../../../base/waiting.js'
import type * as api from '../../../calls/index.js'
import type { FoundLine } from '../../../protocol/endpoints.js'
import type { ReceivedMessages } from '../../../protocol/messages.js'
import type { KillRequest, LogLinesPlan, LogStreamPlan } from '../../../requests/logs.js'
import type { LogPlan, PortPlan, WaitForPlan } from '../../../requests/waits.js'
import type { HoldBackend, ProcessBackend, ServiceBackend } from '../../../sandbox/backend.js'
import type { Engine } from '../engine.js'
import { exitOf, infoOf, type ProcessHandle } from './handle.js'
import { readLines } from './log-lines.js'
import { LogStream } from './log-stream.js'
import { readWhole } from './log-text.js'
import { type ReceivePlan, receive, sendLine } from './messages.js'
import { waitForPort } from './wait-for-port.js'
import { waiting } from './waiting.js'
import { notInTime, waitFor, waitForInput, waitForLog } from './waits.js'
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

  get info(): api.ProcessInfo {
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

  async wait(limits: WaitLimits): Promise<api.ProcessExit> {
    const { handle } = this
    const late = () => notInTime(handle, 'it ended', limits.timeout, 'PROCESS_WAIT_TIMEOUT')
    return exitOf(await within(limits, (stop) => handle.wait(stop), late))
  }

  async logs({ encoding }: { encoding: api.Encoding }): Promise<api.ProcessLogs<api.Encoding>> {
    return readWhole(this.#engine, this.handle.ref, encoding)
  }

  async logLines(plan: LogLinesPlan): Promise<api.LogLines<api.Encoding>> {
    return readLines(this.#engine, this.handle.ref, plan)
  }

  output(plan: LogStreamPlan): AsyncIterableIterator<api.LogEvent<api.Encoding>, undefined> {
    return new LogStream(this.#current, plan)
  }

  watch(wantsOutput: boolean): AsyncIterable<api.LogEvent> {
    return watch(this.handle, wantsOutput)
  }

  async waitForLog(plan: LogPlan): Promise<FoundLine> {
    return waitForLog(this.handle, plan)
  }

  async waitForInput(limits: WaitLimits): Promise<api.ProcessWaiting> {
    return waitForInput(this.handle, limits)
  }

  async waitForPort(plan: PortPlan): Promise<void> {
    return waitForPort(this.handle, plan)
  }

  async waitFor(plan: WaitForPlan): Promise<api.WaitEnd> {
    return waitFor(this.#engine, this.handle.ref, plan)
  }

  async hold(owner: string): Promise<HoldBackend> {
    return this.handle.hold(owner)
  }

  async receive(plan: ReceivePlan): Promise<ReceivedMessages> {
    return receive(this.#withChannel('messages'), plan)
  }

  async send(line: string): Promise<void> {
    await sendLine(this.#withChannel('send'), line)
  }

  async disconnect(): Promise<void> {
    const { ref } = this.#withChannel('disconnect')
    this.#engine.ask((native) => native.finishMessages(ref))
  }

  #withChannel(method: string): ProcessHandle {
    const { handle } = this
    if (handle.hasChannel) return handle
    throw invalidOption(`${method} needs a process that was started with ipc: true`)
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

  async stats(): Promise<api.ProcessStats> {
    const { ref } = this.handle
    return { ...(await this.#engine.call((native, id) => native.processStats(id, ref))) }
  }

  async waiting(): Promise<api.ProcessWaiting | null> {
    return waiting(this.#engine, this.handle.ref)
  }
}
