/**
 * The run of a command on the server, reported to the same observer as a local one.
 *
 * The reply to the request is the stream of the run's events. The first event has the run's id; input, kill and abort
 * wait for it. When the connection breaks, the server kills the command, since its result could not be delivered.
 */

import { abortable, onAbort, orAborted, refuseAborted } from '../../base/abort.js'
import { deferred } from '../../base/deferred.js'
import { AbortError, engineError, ignoring, isCode, notDetached, SandboxError } from '../../base/errors.js'
import { failureText } from '../../base/failure-text.js'
import { report } from '../../base/report.js'
import { clearTimeout, setTimeout } from '../../base/timers.js'
import type { Logger, Process } from '../../calls/index.js'
import { execResult } from '../../calls/result.js'
import type { Endpoint } from '../../protocol/endpoint.js'
import * as endpoints from '../../protocol/endpoints.js'
import type { ExecRequest } from '../../requests/exec.js'
import type { CommandKill } from '../../requests/logs.js'
import { STDERR, STDOUT } from '../../requests/source.js'
import { InputFeed } from '../../run/input.js'
import type { Result, RunObserver, RunView, StreamRun } from '../../run/run.js'
import { ABORTED, restLost } from '../../run/start-process.js'
import { processOf } from '../../sandbox/process.js'
import { encodeBytes } from '../../schema/command.js'
import { MAX_MILLISECONDS } from '../../schema/numbers.js'
import { decodeOutput } from '../../schema/reply.js'
import type { Connection } from './connection.js'
import { connectionError, errorOf, refusalCode } from './failure.js'
import { InputOrder } from './input-order.js'
import { execHeaders, piecesOf, type Sendable } from './plan.js'
import type { HttpProcess } from './process.js'
import type { Details } from './request.js'
import type { Slot } from './session-queues.js'
import type { ServerEvent } from './sse.js'

/** Pieces that may wait for the consumer. Beyond that the connection is not read, and at last the command blocks. */
const WINDOW = 16

/** Milliseconds in which the server must answer an abort. */
const ANSWER_MS = 2000
/** Milliseconds that an aborted command may take to end, unless the call has a `forceKillAfterDelay`. */
const FORCE_KILL_MS = 5000

/** The observer of a run without callbacks. */
export const SILENT: RunObserver = { start() {}, output: () => false, end() {} }

export class RemoteRun implements StreamRun {
  readonly outcome: Promise<Result>
  readonly #connection: Connection
  readonly #request: ExecRequest
  readonly #sendable: Sendable
  readonly #observer: RunObserver
  readonly #slot: Slot
  readonly #logger: Logger | undefined
  readonly #adopt: (process: endpoints.NamedProcess, input: InputOrder) => HttpProcess
  readonly #input = new InputOrder()
  /** The process that the command has become. */
  #process: HttpProcess | undefined
  /** The run has ended because the command has become a process. */
  #isDetached = false
  /** Rejects when the run ends without an id. */
  readonly #id = deferred<string>()
  #credit: number
  #proceed = () => {}
  /** The command is being killed: the rest of its output needs no permits. */
  #isStopping = false
  #isSent = false
  #isAnnounced = false
  #isOver = false
  /** Aborted by `kill` while the run waits for its turn: then it is never sent. */
  readonly #dropped = new AbortController()
  #killReason: string | undefined
  #late: ReturnType<typeof setTimeout> | undefined
  /** Frees the run from its AbortSignal. */
  #release = () => {}
  /** Whether another caller holds the input of the process. */
  #isHeld = false
  #thrown: { value: unknown } | undefined
  readonly #cut = new AbortController()

  /**
   * Starts the run as soon as the server has the earlier commands of its session. `adopt` keeps the process that it may
   * become.
   */
  constructor(
    connection: Connection,
    request: ExecRequest,
    sendable: Sendable,
    observer: RunObserver,
    slot: Slot,
    adopt: (process: endpoints.NamedProcess, input: InputOrder) => HttpProcess,
    logger: Logger | undefined,
  ) {
    this.#adopt = adopt
    this.#logger = logger
    this.#connection = connection
    this.#request = request
    this.#credit = request.bounds?.window ?? WINDOW
    this.#sendable = sendable
    this.#observer = observer
    this.#slot = slot
    this.#id.promise.catch(() => {})
    this.outcome = this.#perform()
  }

  giveBack(permits: number): void {
    this.#credit += permits
    if (this.#credit > 0) this.#proceed()
  }

  async kill(request: CommandKill): Promise<boolean> {
    if (this.#isOver) return this.#wasKilled()
    this.#stopWaiting()
    if (!this.#isSent) {
      this.#killReason ??= request.reason
      this.#dropped.abort()
      return this.#wasKilled()
    }
    try {
      return await this.#ask(endpoints.killRun, { body: request })
    } catch (error) {
      if (this.#isOver || refusalCode(error) === 'RUN_NOT_FOUND') return this.#wasKilled()
      this.#cut.abort()
      throw error
    }
  }

  /** Whether a run that has ended was ended early. */
  async #wasKilled(): Promise<boolean> {
    try {
      return (await this.outcome).cancelled
    } catch (error) {
      return (error as { result?: Result }).result?.cancelled ?? false
    }
  }

  write(data: Uint8Array): Promise<void> {
    const wasOver = this.#isOver
    return this.#input.add(async () => {
      for (const piece of piecesOf(data)) await this.#send({ data: encodeBytes(piece) }, wasOver)
    })
  }

  closeInput(): Promise<void> {
    return this.#input.add(() => this.#give({ end: true }))
  }

  async resize(body: { cols: number; rows: number }): Promise<boolean> {
    if (this.#process === undefined) {
      if (!this.#isSent || this.#isOver) return false
      try {
        return await this.#ask(endpoints.resizeRun, { body, isIdempotent: true })
      } catch (error) {
        if (!this.#isOver && refusalCode(error) !== 'RUN_NOT_FOUND') throw error
      }
    }
    // It may have become a process meanwhile.
    return (await (this.#process as HttpProcess | undefined)?.resize(body)) ?? false
  }

  async detach(): Promise<Process> {
    if (!this.#isSent) throw notDetached('it has not begun')
    if (this.#process !== undefined) return processOf(this.#process)
    try {
      const process = await this.#ask(endpoints.detachRun, {})
      this.#release()
      return processOf(this.#become(process))
    } catch (error) {
      // It has become a process meanwhile.
      if (this.#process !== undefined) return processOf(this.#process)
      if (this.#isOver || refusalCode(error) === 'RUN_NOT_FOUND')
        throw notDetached('it has already ended: its result has all of its output')
      throw error
    }
  }

  get view(): RunView {
    return this.#process ?? this.#view
  }

  /** That of the run itself. Waits until the server has the command. */
  readonly #view: RunView = {
    logs: ({ encoding }) => this.#ask(endpoints.runLogs, { query: { encoding }, encoding }),
    logLines: ({ signal, ...body }) => {
      const { encoding } = body
      const details = { body, signal, encoding, isIdempotent: true, subject: 'the search' }
      return this.#ask(endpoints.runLines, details)
    },
    waiting: async () => {
      if (this.#isOver) return null
      try {
        return await this.#ask(endpoints.runWaiting, {})
      } catch (error) {
        if (this.#isOver || refusalCode(error) === 'RUN_NOT_FOUND') return null
        throw error
      }
    },
    waitFor: async ({ signal, ...body }) => {
      try {
        return await this.#ask(endpoints.runWaitFor, { body, signal, subject: 'the wait' })
      } catch (error) {
        const isUnknown = !this.#isAnnounced || refusalCode(error) === 'RUN_NOT_FOUND'
        if (!this.#isOver || !isUnknown) throw error
        throw engineError('PROCESS_NOT_FOUND', 'the command has ended')
      }
    },
  }

  #become(process: endpoints.NamedProcess): HttpProcess {
    this.#process ??= this.#adopt(process, this.#input)
    return this.#process
  }

  async #perform(): Promise<Result> {
    const { signal } = this.#request.values
    const { source } = this.#sendable
    let feed: InputFeed | undefined
    try {
      refuseAborted(signal)
      feed = source && new InputFeed(source)
      this.#release = onAbort(signal, () => this.#abort())
      void feed?.feed({
        write: async (data) => {
          for (const piece of piecesOf(data)) await this.#feed({ data: encodeBytes(piece) }, feed)
        },
        closeInput: () => void this.#feed({ end: true }, feed).catch((error) => this.#fail(error)),
        fail: (error) => this.#fail(error),
      })
      if (this.#slot.begins !== undefined) {
        await abortable(orAborted(this.#slot.begins, this.#dropped.signal), signal)
        if (this.#dropped.signal.aborted) return this.#killedBefore()
      }
      this.#isSent = true
      return await this.#follow()
    } catch (error) {
      if (isCode(error, 'SESSION_DESTROYED', 'ROLLED_BACK')) this.#slot.destroy(error)
      if (!this.#cut.signal.aborted) throw error
      if (this.#thrown !== undefined) throw this.#thrown.value
      throw signal?.aborted ? new AbortError(signal.reason) : error
    } finally {
      this.#isOver = true
      clearTimeout(this.#late)
      this.#slot.end()
      this.#release()
      if (!this.#isDetached) void feed?.close()
      this.#id.reject(connectionError('the run is over'))
    }
  }

  /** The end of a run that was killed in the queue, as a local one ends. */
  #killedBefore(): Result {
    const { shown, sessionId, encoding, values } = this.#request
    const none = encoding === 'buffer' ? new Uint8Array() : ''
    const result: Result = {
      ...{ success: false, exitCode: null, signal: null, stdout: none, stderr: none, all: none },
      ...{ command: shown, sessionId, cwd: values.cwd ?? '', duration: 0 },
      ...{ timestamp: new Date().toISOString(), timedOut: false, cancelled: true },
      killedBy: { by: 'caller', reason: this.#killReason ?? null },
      ...{ truncated: null, truncatedAt: null, sessionRestarted: false, denials: [] },
    }
    this.#notify(() => this.#observer.end())
    if (!values.check) return result
    const { message, shortMessage } = failureText(result, 'was killed before it started,')
    throw new SandboxError('COMMAND_FAILED', message, { result, shortMessage })
  }

  async #follow(): Promise<Result> {
    const request = {
      ...{ path: '/v1/exec/stream', body: this.#sendable.body, signal: this.#cut.signal },
      headers: execHeaders(this.#request),
    }
    let end: (() => Result) | undefined
    for await (const { data } of this.#connection.runEvents(request, this.#cut.signal)) {
      // After the last one the response ends by itself, and its connection can be used again.
      end ??= this.#receive(data)
      while (this.#credit <= 0 && !this.#isStopping) await this.#permits()
    }
    this.#notify(() => this.#observer.end())
    const isUnwanted = this.#thrown !== undefined || this.#request.values.signal?.aborted
    // Until the call has ended, its caller can end the command.
    if (isUnwanted && this.#isDetached) await this.#process?.kill(ABORTED)
    if (this.#thrown !== undefined) throw this.#thrown.value
    if (end === undefined) throw connectionError('the events of the command ended early')
    return end()
  }

  /** Handles an event. Returns the end of the run after the last one: a function that returns the result or throws. */
  #receive(data: ServerEvent['data']): (() => Result) | undefined {
    const { encoding, values } = this.#request
    const { signal } = values
    switch (data.type) {
      case 'run':
        this.#isAnnounced = true
        this.#id.resolve(data.runId)
        this.#slot.end()
        return undefined
      case 'start':
        this.#notify(() => this.#observer.start(data.pid))
        return undefined
      case 'stdout':
      case 'stderr': {
        const stream = data.type === 'stderr' ? STDERR : STDOUT
        const isKept = this.#notify(() =>
          this.#observer.output(stream, decodeOutput(data.data, 'buffer') as Uint8Array),
        )
        if (isKept) this.#credit--
        return undefined
      }
      case 'complete': {
        if (data.process !== undefined) {
          this.#isDetached = true
          this.#become(endpoints.getProcess.reply.decode(data.process))
        }
        return () => this.#complete(execResult.decode(data.result, encoding))
      }
      default:
        return () => {
          throw errorOf(data.error, { encoding, signal })
        }
    }
  }

  #complete(result: Result): Result {
    if (!this.#isDetached || this.#process === undefined) return result
    const { signal } = this.#request.values
    const whole = { ...result, process: processOf(this.#process) }
    if (signal?.aborted) throw new AbortError(signal.reason, whole, failureText(whole, 'was aborted'))
    return whole
  }

  /** Calls the observer. After an exception it is not called again, and the command is killed. */
  #notify<T>(call: () => T): T | undefined {
    if (this.#thrown !== undefined) return undefined
    try {
      return call()
    } catch (error) {
      this.#fail(error)
      return undefined
    }
  }

  #fail(value: unknown): void {
    this.#thrown ??= { value }
    this.#abort()
  }

  /** Sends input. Another caller may hold that of the process which the command has become: then the rest is lost. */
  async #feed(input: object, feed: InputFeed | undefined): Promise<void> {
    try {
      await this.#give(input)
    } catch (error) {
      if (this.#process === undefined || !isCode(error, 'HELD')) throw error
      void feed?.close()
      // What was on its way when the feed was closed is refused, too.
      if (!this.#isHeld) report(this.#logger, 'warn', `${restLost(this.#process.id)}: ${error}`)
      this.#isHeld = true
    }
  }

  /** Sends input. Throws when it is lost while the command runs, which would wait for it. */
  #give(input: object): Promise<void> {
    return ignoring(this.#send(input), 'INPUT_CLOSED')
  }

  /** Sends input. Throws INPUT_CLOSED if its input is closed, or the command `wasOver` when the caller wrote. */
  async #send(input: object, wasOver = false): Promise<void> {
    if (this.#process !== undefined) return this.#process.sendInput(input)
    try {
      await this.#ask(endpoints.writeToRun, { body: input })
    } catch (error) {
      if (!this.#isOver && refusalCode(error) !== 'RUN_NOT_FOUND') throw error
      // It may have become a process meanwhile.
      await (this.#process as HttpProcess | undefined)?.sendInput(input)
      if (this.#process === undefined && wasOver) throw engineError('INPUT_CLOSED', 'the command has ended')
    }
  }

  /**
   * Asks the server to abort, for the result of what has run. Closing the connection has the same effect without a result:
   * where the server has not announced the run, does not answer, or does not end the run in time.
   */
  #abort(): void {
    this.#stopWaiting()
    const cut = () => {
      if (!this.#isOver) this.#cut.abort()
    }
    if (!this.#isAnnounced) {
      cut()
      return
    }
    const { forceKillAfterDelay = FORCE_KILL_MS } = this.#request.values
    this.#late ??= setTimeout(cut, Math.min(forceKillAfterDelay + 2 * ANSWER_MS, MAX_MILLISECONDS))
    this.#ask(endpoints.abortRun, { signal: AbortSignal.timeout(ANSWER_MS) }).catch((error) => {
      // A run that has ended has sent its last event.
      if (refusalCode(error) !== 'RUN_NOT_FOUND') cut()
    })
  }

  #stopWaiting(): void {
    this.#isStopping = true
    this.#proceed()
  }

  #permits(): Promise<void> {
    return new Promise((resolve) => {
      this.#proceed = resolve
    })
  }

  async #ask<T>(endpoint: Endpoint<T>, details: Details): Promise<T> {
    return this.#connection.call(endpoint, { params: { runId: await this.#id.promise }, ...details })
  }
}
