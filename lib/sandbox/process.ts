/**
 * The public objects for background processes and services: check arguments and call the backend.
 */
import { calledBy } from '../base/call-site.js'
import { isCode, OptionError } from '../base/errors.js'
import { holdOwner } from '../calls/hold.js'
import type {
  Encoding,
  ExitReason,
  HandBack,
  KilledBy,
  KillOptions,
  LogEvent,
  LogLines,
  LogLinesOptions,
  LogMatch,
  LogOptions,
  LogStreamOptions,
  MessagesOptions,
  ProcessExit,
  ProcessInfo,
  ProcessLogs,
  ProcessStats,
  ProcessStatus,
  ProcessTerminal,
  ProcessWaiting,
  Hold as PublicHold,
  Process as PublicProcess,
  Service as PublicService,
  ServiceFailure,
  ServiceHealth,
  Signal,
  WaitEnd,
  WaitForLogOptions,
  WaitForOptions,
  WaitForPortOptions,
  WaitOptions,
} from '../calls/index.js'
import { terminal } from '../calls/process.js'
import { planOf } from '../protocol/endpoint.js'
import { processCalls } from '../protocol/simple-calls.js'
import { planLogStream, readKill } from '../requests/logs.js'
import { logMatch, planWait, planWaitForLog, planWaitForPort } from '../requests/waits.js'
import { inputBytes } from '../schema/command.js'
import { message as messageKind } from '../schema/message.js'
import { readArgument } from '../schema/read.js'
import type { HoldBackend, ProcessBackend, ServiceBackend } from './backend.js'
import { Hold } from './hold.js'
import { MessageStream } from './messages.js'

/** The public object of each backend process. Callers get the same object as long as the backend keeps its own. */
const shown = new WeakMap<ProcessBackend, Process>()

export function processOf(backend: ServiceBackend): Service
export function processOf(backend: ProcessBackend): Process
export function processOf(backend: ProcessBackend): Process {
  const { service } = backend
  const process = shown.get(backend) ?? (service ? new Service(service) : new Process(backend))
  shown.set(backend, process)
  return process
}

/** The backend process of a public object. */
export function processBackend(process: PublicProcess): ProcessBackend {
  return Process.backendOf(process as Process)
}

/** Holds the standard input of a process. */
export async function hold(process: ProcessBackend, owner: unknown): Promise<HoldBackend> {
  const name = readArgument(holdOwner.read, owner, 'owner')
  requireOption(process.hasPipe, 'hold', "input: 'pipe'")
  return process.hold(name)
}

/** Writes to the standard input of a process. `hold`: the caller's. */
export async function write(process: ProcessBackend, data: unknown, hold?: string): Promise<void> {
  const bytes = readArgument(inputBytes, data, 'data')
  requireOption(process.hasPipe, 'write', "input: 'pipe'")
  await process.write(bytes, hold)
}

/** Closes the standard input of a process. */
export async function closeInput(process: ProcessBackend, hold?: string): Promise<void> {
  requireOption(process.hasPipe, 'closeInput', "input: 'pipe'")
  await process.closeInput(hold)
}

/** Sets the size of the terminal of a process. */
export async function resize(
  process: ProcessBackend,
  cols: unknown,
  rows: unknown,
  hold?: string,
): Promise<boolean> {
  const size = readArgument(terminal.read, { cols, rows }, 'size')
  requireOption(process.hasTerminal, 'resize', 'pty')
  return process.resize(size, hold)
}

function requireOption(isGiven: boolean, method: string, option: string): void {
  if (!isGiven)
    throw new OptionError('INVALID_OPTION', `${method} needs a process that was started with ${option}`)
}

export class Process implements PublicProcess {
  readonly #backend: ProcessBackend
  readonly #hold: string | undefined

  /** `hold`: the caller's. */
  constructor(backend: ProcessBackend, hold?: string) {
    this.#backend = backend
    this.#hold = hold
  }

  static backendOf(process: Process): ProcessBackend {
    return process.#backend
  }

  get id(): string {
    return this.#backend.info.id
  }

  get pid(): number {
    return this.#backend.info.pid
  }

  get command(): string {
    return this.#backend.info.command
  }

  get sessionId(): string {
    return this.#backend.info.sessionId
  }

  get status(): ProcessStatus {
    return this.#backend.info.status
  }

  get startTime(): Date {
    return this.#backend.info.startTime
  }

  get endTime(): Date | undefined {
    return this.#backend.info.endTime
  }

  get lastOutputAt(): Date | null {
    return this.#backend.info.lastOutputAt
  }

  get lastInputAt(): Date | null {
    return this.#backend.info.lastInputAt
  }

  get heldBy(): string | null {
    return this.#backend.info.heldBy
  }

  get handedBack(): HandBack | null {
    return this.#backend.info.handedBack
  }

  get terminal(): ProcessTerminal | null {
    return this.#backend.info.terminal
  }

  get exitCode(): number | null {
    return this.#backend.info.exitCode
  }

  get signal(): NodeJS.Signals | null {
    return this.#backend.info.signal
  }

  get reason(): ExitReason | null {
    return this.#backend.info.reason
  }

  get killedBy(): KilledBy | null {
    return this.#backend.info.killedBy
  }

  async kill(signal?: Signal, options?: KillOptions): Promise<boolean> {
    return calledBy(this.kill, this.#backend.kill(readKill(signal, options, 'kill')))
  }

  async waitForExit(options?: WaitOptions | number): Promise<ProcessExit> {
    return calledBy(this.waitForExit, this.#backend.wait(planWait(options)))
  }

  async getStatus(): Promise<ProcessStatus> {
    await this.#backend.refresh()
    return this.status
  }

  async getLogs<E extends Encoding = 'utf8'>(options?: LogOptions<E>): Promise<ProcessLogs<E>> {
    return (await this.#backend.logs(planOf(processCalls.logs, options))) as ProcessLogs<E>
  }

  async getLogLines<E extends Encoding = 'utf8'>(options?: LogLinesOptions<E>): Promise<LogLines<E>> {
    const lines = this.#backend.logLines(planOf(processCalls.logLines, options))
    return (await calledBy(this.getLogLines, lines)) as LogLines<E>
  }

  output<E extends Encoding = 'utf8'>(
    options?: LogStreamOptions<E>,
  ): AsyncIterableIterator<LogEvent<E>, undefined> {
    const stream = this.#backend.output(planLogStream(options, 'output'))
    return stream as AsyncIterableIterator<LogEvent<E>, undefined>
  }

  async waitForLog(pattern: string | RegExp, options?: WaitForLogOptions | number): Promise<LogMatch> {
    const plan = planWaitForLog(pattern, options)
    return logMatch(plan.pattern, await calledBy(this.waitForLog, this.#backend.waitForLog(plan)))
  }

  async waitForInput(options?: WaitOptions): Promise<ProcessWaiting> {
    const plan = planOf(processCalls.waitForInput, options)
    return calledBy(this.waitForInput, this.#backend.waitForInput(plan))
  }

  async waitForPort(port: number, options?: WaitForPortOptions): Promise<void> {
    return calledBy(this.waitForPort, this.#backend.waitForPort(planWaitForPort(port, options)))
  }

  async waitFor(options?: WaitForOptions): Promise<WaitEnd> {
    return calledBy(this.waitFor, this.#backend.waitFor(planOf(processCalls.waitFor, options)))
  }

  async write(data: string | Uint8Array): Promise<void> {
    await calledBy(this.write, write(this.#backend, data, this.#hold))
  }

  async closeInput(): Promise<void> {
    await closeInput(this.#backend, this.#hold)
  }

  async send(message: unknown): Promise<void> {
    await calledBy(this.send, this.#backend.send(messageKind.read(message, 'message')))
  }

  messages<T = unknown>(options?: MessagesOptions): AsyncIterableIterator<T, undefined> {
    const { signal } = planOf(processCalls.receive, options)
    return new MessageStream(this.#backend, signal) as AsyncIterableIterator<T, undefined>
  }

  async disconnect(): Promise<void> {
    await this.#backend.disconnect()
  }

  async hold(owner: string): Promise<PublicHold<PublicProcess>> {
    const made = await calledBy(this.hold, hold(this.#backend, owner))
    const { service } = this.#backend
    const held = service ? new Service(service, made.id) : new Process(this.#backend, made.id)
    return new Hold(owner, made, held)
  }

  async resize(cols: number, rows: number): Promise<boolean> {
    return resize(this.#backend, cols, rows, this.#hold)
  }

  async stats(): Promise<ProcessStats> {
    return this.#backend.stats()
  }

  async waiting(): Promise<ProcessWaiting | null> {
    return this.#backend.waiting()
  }

  toJSON(): ProcessInfo {
    return this.#backend.info
  }

  /** What `console.log` prints on Node and Bun. */
  [Symbol.for('nodejs.util.inspect.custom')](): ProcessInfo {
    return this.toJSON()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill().catch((error) => {
      // Nothing is left to kill.
      if (!isCode(error, 'SANDBOX_DESTROYED', 'PROCESS_NOT_FOUND')) throw error
    })
  }
}

export class Service extends Process implements PublicService {
  readonly #backend: ServiceBackend

  constructor(backend: ServiceBackend, hold?: string) {
    super(backend, hold)
    this.#backend = backend
  }

  get restarts(): number {
    return this.#backend.restarts
  }

  get lastFailure(): ServiceFailure | null {
    return this.#backend.lastFailure
  }

  async getHealth(): Promise<ServiceHealth> {
    return this.#backend.health()
  }

  async restart(): Promise<void> {
    await this.#backend.restart()
  }
}
