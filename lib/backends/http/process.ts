/**
 * A background process on the server. `info` is the last known state: from its start or its look-up, or from `refresh`,
 * `wait` or `kill`.
 */
import { engineError, ignoring, isCode } from '../../base/errors.js'
import type { WaitLimits } from '../../base/waiting.js'
import type { Encoding, LogEvent, ProcessExit, ProcessInfo } from '../../calls/index.js'
import { logEvent } from '../../calls/logs.js'
import type { Endpoint } from '../../protocol/endpoint.js'
import * as endpoints from '../../protocol/endpoints.js'
import { processCalls } from '../../protocol/simple-calls.js'
import type { KillRequest, LogStreamPlan } from '../../requests/logs.js'
import type { LogPlan, PortPlan } from '../../requests/waits.js'
import type { HoldBackend, ProcessBackend, ServiceBackend } from '../../sandbox/backend.js'
import { encodeBytes } from '../../schema/command.js'
import type { Connection } from './connection.js'
import { refusalCode } from './failure.js'
import { beginHold, holdHeaders } from './hold.js'
import { InputOrder } from './input-order.js'
import { patternBody, piecesOf, probeBody } from './plan.js'
import type { Details } from './request.js'
import { ResumingStream } from './resuming.js'
import { withCalls } from './simple-calls.js'
import { TerminalInput } from './terminal-input.js'

export class HttpProcess
  extends withCalls<typeof processCalls, 'processId'>(processCalls)
  implements ProcessBackend
{
  /** Only the server knows, and refuses what is not possible. */
  readonly hasPipe = true
  readonly hasTerminal = true
  #info: endpoints.NamedProcess
  readonly #terminal: TerminalInput | undefined
  readonly #input: InputOrder
  /** The messages to the process. */
  readonly #sent = new InputOrder()

  /** `hasTerminal`: it is known to have one. `input`: that of the command that it was. */
  constructor(
    connection: Connection,
    info: endpoints.NamedProcess,
    hasTerminal = false,
    input = new InputOrder(),
  ) {
    super(connection, () => this.params)
    this.#info = info
    this.#input = input
    const query = { output: false, acknowledge: true }
    if (hasTerminal) this.#terminal = new TerminalInput(() => connection.socket(this.path('terminal'), query))
  }

  get info(): ProcessInfo {
    const { instance: _, ...info } = this.#info
    return info
  }

  get service(): ServiceBackend | undefined {
    return undefined
  }

  get id(): string {
    return this.#info.id
  }

  /** A process that the server has forgotten keeps its last state. */
  async refresh(): Promise<void> {
    const call = this.#call(endpoints.getProcess)
    const info = await ignoring(call, 'SANDBOX_DESTROYED', 'PROCESS_NOT_FOUND')
    if (info !== undefined) this.#info = info
  }

  /** False also for a process that the server has forgotten. */
  async kill(request: KillRequest): Promise<boolean> {
    try {
      const { killed, process } = await this.#call(endpoints.killProcess, { body: request })
      this.#info = process
      return killed
    } catch (error) {
      if (this.#info.instance !== undefined && isCode(error, 'PROCESS_NOT_FOUND')) return false
      throw error
    }
  }

  async wait({ timeout, signal }: WaitLimits): Promise<ProcessExit> {
    try {
      // A second request would start the time limit again.
      const isIdempotent = timeout === 0
      const request = { body: { timeout }, signal, isIdempotent }
      const { process, exit } = await this.#call(endpoints.waitForExit, request)
      this.#info = process
      return exit
    } catch (error) {
      const { endTime, exitCode, signal, reason } = this.#info
      if (endTime !== undefined && isCode(error, 'PROCESS_NOT_FOUND')) return { exitCode, signal, reason }
      throw error
    }
  }

  /** Reconnects as often as needed. `pid`: of the process whose output it is, where a service can have another one by then. */
  output(
    { cursor: start, follow, signal, encoding }: LogStreamPlan,
    pid?: number,
  ): ResumingStream<LogEvent<Encoding>> {
    return new ResumingStream<LogEvent<Encoding>>(this.connection, {
      cursor: start,
      signal,
      subject: 'reading the log',
      request: (cursor) => ({
        method: 'GET',
        path: this.path('output'),
        query: { cursor, follow, encoding, pid },
      }),
      value(data) {
        const event = logEvent.decode(data, encoding)
        return event.type === 'exit' ? { value: event } : { value: event, cursor: event.cursor }
      },
    })
  }

  watch(wantsOutput: boolean): AsyncIterable<LogEvent> {
    const cursor = wantsOutput ? 0 : Number.MAX_SAFE_INTEGER
    const plan = { cursor, follow: true, signal: undefined, encoding: 'utf8' } as const
    return this.output(plan, this.#info.pid) as AsyncIterable<LogEvent>
  }

  async waitForLog({ pattern, cursor, timeout, signal }: LogPlan): Promise<endpoints.FoundLine> {
    const body = { pattern: patternBody(pattern), cursor, timeout }
    return this.#call(endpoints.waitForLog, { body, signal })
  }

  async waitForPort({ port, http, interval, timeout, signal }: PortPlan): Promise<void> {
    const body = { port, ...probeBody({ http }), interval, timeout }
    await this.#call(endpoints.waitForPort, { body, signal })
  }

  hold(owner: string): Promise<HoldBackend> {
    const request = { path: this.path('hold'), owner }
    return beginHold(this.connection, request, endpoints.releaseProcess, { params: this.params })
  }

  /** The WebSocket of a terminal has no hold. */
  write(data: Uint8Array, hold?: string): Promise<void> {
    return this.#input.add(async () => {
      for (const piece of piecesOf(data)) {
        const isTyped = hold === undefined && (await this.#type(piece))
        if (!isTyped) await this.sendInput({ data: encodeBytes(piece) }, hold)
      }
    })
  }

  closeInput(hold?: string): Promise<void> {
    return this.#input.add(() => ignoring(this.sendInput({ end: true }, hold), 'INPUT_CLOSED'))
  }

  /** Sends input at once, whatever is being sent. A process that the server has forgotten has ended. */
  async sendInput(body: object, hold?: string): Promise<void> {
    try {
      await this.#call(endpoints.writeToProcess, { body, headers: holdHeaders(hold) })
    } catch (error) {
      throw isCode(error, 'PROCESS_NOT_FOUND') ? engineError('INPUT_CLOSED', 'the process has ended') : error
    }
  }

  async send(line: string): Promise<void> {
    return this.#sent.add(async () => {
      try {
        await this.#call(endpoints.sendMessage, { body: { message: JSON.parse(line) } })
      } catch (error) {
        if (isCode(error, 'PROCESS_NOT_FOUND'))
          throw engineError('CHANNEL_CLOSED', `process '${this.id}' has ended`)
        if (refusalCode(error) === 'PAYLOAD_TOO_LARGE')
          throw engineError('MESSAGE_TOO_LARGE', (error as Error).message, { cause: error })
        throw error
      }
    })
  }

  disconnect(): Promise<void> {
    return this.#sent.add(() => ignoring(this.#call(endpoints.disconnect), 'PROCESS_NOT_FOUND'))
  }

  async resize(body: { cols: number; rows: number }, hold?: string): Promise<boolean> {
    return this.#call(endpoints.resize, { body, headers: holdHeaders(hold), isIdempotent: true })
  }

  /** Takes over the state that a reply has reported. */
  protected update(info: endpoints.NamedProcess): void {
    this.#info = info
  }

  /** False when there is no WebSocket to type into. */
  async #type(data: Uint8Array): Promise<boolean> {
    try {
      return (await this.#terminal?.write(data)) ?? false
    } catch (error) {
      this.connection.check()
      throw error
    }
  }

  #call<T>(endpoint: Endpoint<T>, details?: Details): Promise<T> {
    return this.connection.call(endpoint, { params: this.params, subject: 'the wait', ...details })
  }

  protected get params(): { processId: string } {
    const { id, instance } = this.#info
    // Where only the id is known, the reply names the process.
    return { processId: instance === undefined ? id : `${id}~${instance}` }
  }

  protected path(what: string): string {
    return `/v1/processes/${this.params.processId}/${what}`
  }
}
