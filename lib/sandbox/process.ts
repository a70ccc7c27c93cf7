/**
 * The public objects for background processes and services: check arguments and call the backend.
 */
import { calledBy } from '../base/call-site.js'
import { ignoring, invalidOption } from '../base/errors.js'
import { holdOwner } from '../calls/hold.js'
import type * as api from '../calls/index.js'
import { processInfo, terminal } from '../calls/process.js'
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
export function processBackend(process: api.Process): ProcessBackend {
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
  if (!isGiven) throw invalidOption(`${method} needs a process that was started with ${option}`)
}

/** The type of the properties that a process defines by the table of its state. */
const WithState = class {} as unknown as new () => api.ProcessInfo

export class Process extends WithState implements api.Process {
  static {
    for (const name of Object.keys(processInfo.fields) as (keyof api.ProcessInfo)[])
      Object.defineProperty(Process.prototype, name, {
        configurable: true,
        get(this: Process) {
          return this.#backend.info[name]
        },
      })
  }

  readonly #backend: ProcessBackend
  readonly #hold: string | undefined

  /** `hold`: the caller's. */
  constructor(backend: ProcessBackend, hold?: string) {
    super()
    this.#backend = backend
    this.#hold = hold
  }

  static backendOf(process: Process): ProcessBackend {
    return process.#backend
  }

  async kill(signal?: api.Signal, options?: api.KillOptions): Promise<boolean> {
    return calledBy(this.kill, this.#backend.kill(readKill(signal, options, 'kill')))
  }

  async waitForExit(options?: api.WaitOptions | number): Promise<api.ProcessExit> {
    return calledBy(this.waitForExit, this.#backend.wait(planWait(options)))
  }

  async getStatus(): Promise<api.ProcessStatus> {
    await this.#backend.refresh()
    return this.status
  }

  async getLogs<E extends api.Encoding = 'utf8'>(options?: api.LogOptions<E>): Promise<api.ProcessLogs<E>> {
    return (await this.#backend.logs(planOf(processCalls.logs, options))) as api.ProcessLogs<E>
  }

  async getLogLines<E extends api.Encoding = 'utf8'>(
    options?: api.LogLinesOptions<E>,
  ): Promise<api.LogLines<E>> {
    const lines = this.#backend.logLines(planOf(processCalls.logLines, options))
    return (await calledBy(this.getLogLines, lines)) as api.LogLines<E>
  }

  output<E extends api.Encoding = 'utf8'>(
    options?: api.LogStreamOptions<E>,
  ): AsyncIterableIterator<api.LogEvent<E>, undefined> {
    const stream = this.#backend.output(planLogStream(options, 'output'))
    return stream as AsyncIterableIterator<api.LogEvent<E>, undefined>
  }

  async waitForLog(
    pattern: string | RegExp,
    options?: api.WaitForLogOptions | number,
  ): Promise<api.LogMatch> {
    const plan = planWaitForLog(pattern, options)
    return logMatch(plan.pattern, await calledBy(this.waitForLog, this.#backend.waitForLog(plan)))
  }

  async waitForInput(options?: api.WaitOptions): Promise<api.ProcessWaiting> {
    const plan = planOf(processCalls.waitForInput, options)
    return calledBy(this.waitForInput, this.#backend.waitForInput(plan))
  }

  async waitForPort(port: number, options?: api.WaitForPortOptions): Promise<void> {
    return calledBy(this.waitForPort, this.#backend.waitForPort(planWaitForPort(port, options)))
  }

  async waitFor(options?: api.WaitForOptions): Promise<api.WaitEnd> {
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

  messages<T = unknown>(options?: api.MessagesOptions): AsyncIterableIterator<T, undefined> {
    const { signal } = planOf(processCalls.receive, options)
    return new MessageStream(this.#backend, signal) as AsyncIterableIterator<T, undefined>
  }

  async disconnect(): Promise<void> {
    await this.#backend.disconnect()
  }

  async hold(owner: string): Promise<api.Hold<api.Process>> {
    const made = await calledBy(this.hold, hold(this.#backend, owner))
    const { service } = this.#backend
    const held = service ? new Service(service, made.id) : new Process(this.#backend, made.id)
    return new Hold(owner, made, held)
  }

  async resize(cols: number, rows: number): Promise<boolean> {
    return resize(this.#backend, cols, rows, this.#hold)
  }

  async stats(): Promise<api.ProcessStats> {
    return this.#backend.stats()
  }

  async waiting(): Promise<api.ProcessWaiting | null> {
    return this.#backend.waiting()
  }

  toJSON(): api.ProcessInfo {
    return this.#backend.info
  }

  /** What `console.log` prints on Node and Bun. */
  [Symbol.for('nodejs.util.inspect.custom')](): api.ProcessInfo {
    return this.toJSON()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // With these, nothing is left to kill.
    await ignoring(this.kill(), 'SANDBOX_DESTROYED', 'PROCESS_NOT_FOUND')
  }
}

export class Service extends Process implements api.Service {
  readonly #backend: ServiceBackend

  constructor(backend: ServiceBackend, hold?: string) {
    super(backend, hold)
    this.#backend = backend
  }

  get restarts(): number {
    return this.#backend.restarts
  }

  get lastFailure(): api.ServiceFailure | null {
    return this.#backend.lastFailure
  }

  async getHealth(): Promise<api.ServiceHealth> {
    return this.#backend.health()
  }

  async restart(): Promise<void> {
    await this.#backend.restart()
  }
}
