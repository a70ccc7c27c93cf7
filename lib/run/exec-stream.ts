/**
 * execStream: a run that starts when it is constructed, and the only consumer of its output.
 */

import { calledBy } from '../base/call-site.js'
import { engineError, invalidOption, isCode, notDetached, OptionError } from '../base/errors.js'
import type * as api from '../calls/index.js'
import { terminal } from '../calls/process.js'
import { planOf } from '../protocol/endpoint.js'
import { processCalls } from '../protocol/simple-calls.js'
import type { ExecRequest } from '../requests/exec.js'
import { readCommandKill } from '../requests/logs.js'
import { planSource } from '../requests/source.js'
import { INPUT_AWAITED, planInput, type WaitForPlan } from '../requests/waits.js'
import { inputBytes } from '../schema/command.js'
import { readArgument } from '../schema/read.js'
import { AwaitedPromise } from './awaited.js'
import { ByteTranslator, readableStream } from './bytes.js'
import { type CallbackPlan, callbackObserver } from './callbacks.js'
import { EventTranslator, type StreamPlan } from './events.js'
import { Feed } from './feed.js'
import { LineTranslator } from './lines.js'
import { Reader, type Translator } from './reader.js'
import type { Result, RunObserver, RunView, StreamRun } from './run.js'
import { resultOf } from './settle.js'

/** What a stream needs from its backend. */
export interface StreamSource {
  /** Starts the run immediately. */
  start(request: ExecRequest, observer: RunObserver): StreamRun
  /** Awaits the outcome of a run, publishes it and calls the callbacks. */
  settle(request: ExecRequest, perform: (request: ExecRequest) => Promise<Result>): Promise<Result>
}

export class ExecStream implements api.ExecStream<api.Encoding> {
  readonly result: Promise<Result>
  readonly #request: StreamPlan
  readonly #feed: Feed
  readonly #outcome: Promise<Result>
  readonly #hasPipe: boolean
  readonly #hasTerminal: boolean
  #run: StreamRun | undefined
  /** Resolves with the process that the command has become. */
  #detaching: Promise<api.Process> | undefined
  #isDetached = false
  readonly #hasLog: boolean
  /** How the output is being read, for messages. */
  #consumer: string | undefined

  /**
   * Queues the command immediately, so that calls keep their order. An error that prevents the run becomes the last event.
   */
  constructor(request: ExecRequest, source: StreamSource) {
    this.#hasLog = request.values.logLimit !== undefined
    this.#request = request.bounds?.byteEvents ? { ...request, encoding: 'buffer' } : request
    this.#hasPipe = request.values.input === 'pipe'
    this.#hasTerminal = request.values.pty !== undefined
    this.#feed = new Feed((permits) => this.#run?.giveBack(permits), request.bounds?.window)
    this.#outcome = source.settle(request, (settled) => {
      this.#run = source.start(settled, observe(request, this.#feed))
      return this.#run.outcome
    })
    // With these handlers, a rejection that the iteration reports is never an unhandled rejection.
    this.#outcome.then(
      (result) => this.#feed.finish({ result }),
      (error) => this.#feed.finish({ error }),
    )
    this.result = AwaitedPromise.of(this.#outcome, () => this.#feed.awaitResult())
  }

  async kill(signal?: api.Signal, options?: api.KillReason): Promise<boolean> {
    if (await this.#run?.kill(readCommandKill(signal, options, 'kill'))) return true
    // A command that took longer than `detachAfter` is a process, which goes on.
    const { process } = (await this.#outcome.catch(resultOf)) ?? {}
    await process?.kill(signal, options)
    return (await process?.waitForExit())?.reason === 'killed'
  }

  async write(data: string | Uint8Array): Promise<void> {
    const bytes = readArgument(inputBytes, data, 'data')
    await this.#withPipe('write').write(bytes)
  }

  async closeInput(): Promise<void> {
    await this.#withPipe('closeInput').closeInput()
  }

  async resize(cols: number, rows: number): Promise<boolean> {
    const size = readArgument(terminal.read, { cols, rows }, 'size')
    if (!this.#hasTerminal) throw invalidOption('resize needs a command that was started with pty')
    return (await this.#run?.resize(size)) ?? false
  }

  async detach(): Promise<api.Process> {
    this.#detaching ??= this.#detach()
    return this.#detaching
  }

  async getLogs<E extends api.Encoding = 'utf8'>(options?: api.LogOptions<E>): Promise<api.ProcessLogs<E>> {
    const plan = planOf(processCalls.logs, options)
    this.#requireLog('getLogs')
    return (await this.#view.logs(plan)) as api.ProcessLogs<E>
  }

  async getLogLines<E extends api.Encoding = 'utf8'>(
    options?: api.LogLinesOptions<E>,
  ): Promise<api.LogLines<E>> {
    const plan = planOf(processCalls.logLines, options)
    this.#requireLog('getLogLines')
    return (await calledBy(this.getLogLines, this.#view.logLines(plan))) as api.LogLines<E>
  }

  async waiting(): Promise<api.ProcessWaiting | null> {
    return this.#view.waiting()
  }

  async waitForInput(options?: api.WaitOptions): Promise<api.ProcessWaiting> {
    const limits = planOf(processCalls.waitForInput, options)
    const { by, input } = await calledBy(this.waitForInput, this.#waitFor(planInput(limits)))
    if (input !== undefined) return input
    throw by === 'exit'
      ? engineError('PROCESS_EXITED_BEFORE_READY', `the command ended before ${INPUT_AWAITED}`)
      : engineError(
          'PROCESS_READY_TIMEOUT',
          `${limits.timeout} ms passed before ${INPUT_AWAITED}; raise the timeout if it needs longer`,
        )
  }

  async waitFor(options?: api.WaitForOptions): Promise<api.WaitEnd> {
    const plan = planOf(processCalls.waitFor, options)
    if (plan.log !== undefined) this.#requireLog('waitFor with log')
    if (plan.idle !== undefined) this.#requireLog('waitFor with idle')
    return calledBy(this.waitFor, this.#waitFor(plan))
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<api.ExecEvent<api.Encoding>, undefined> {
    return this.#read('iterated', new EventTranslator(this.#request))
  }

  lines(options?: api.SourceOptions): AsyncIterableIterator<string, undefined> {
    const streams = planSource(options, 'lines')
    return this.#read('read by lines()', new LineTranslator(streams))
  }

  toReadableStream(options?: api.SourceOptions): ReadableStream<Uint8Array> {
    const streams = planSource(options, 'toReadableStream')
    return readableStream(this.#read('read by toReadableStream()', new ByteTranslator(streams)))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stop()
  }

  #read<T>(how: string, translator: Translator<T>): Reader<T> {
    if (this.#consumer !== undefined) {
      throw new OptionError(
        'STREAM_LOCKED',
        `a stream can only be read once, and this one is already ${this.#consumer}: its result has the output, too`,
      )
    }
    this.#consumer = how
    return new Reader(this.#feed, translator, () => this.#stop())
  }

  /** The run, whose input is open. */
  #withPipe(method: string): StreamRun {
    if (!this.#hasPipe) throw invalidOption(`${method} needs a command that was started with input: 'pipe'`)
    if (this.#run === undefined) throw engineError('INPUT_CLOSED', 'the command could not be started')
    return this.#run
  }

  async #waitFor(plan: WaitForPlan): Promise<api.WaitEnd> {
    try {
      return await this.#view.waitFor(plan)
    } catch (error) {
      if (!isCode(error, 'PROCESS_NOT_FOUND')) throw error
      // The command has ended, and without a log nothing else of it is kept.
      const result = await this.#outcome.catch(resultOf)
      return { by: 'exit', exit: (await result?.process?.waitForExit()) ?? exitOf(result) }
    }
  }

  #requireLog(call: string): void {
    if (!this.#hasLog) throw invalidOption(`${call} needs a stream that was started with logLimit`)
  }

  get #view(): RunView {
    if (this.#run === undefined) throw engineError('PROCESS_NOT_FOUND', 'the command could not be started')
    return this.#run.view
  }

  async #detach(): Promise<api.Process> {
    try {
      if (this.#run === undefined) throw notDetached('it has not begun')
      const process = await this.#run.detach()
      this.#isDetached = true
      // What nothing reads must not block the process.
      if (this.#consumer === undefined) this.#feed.awaitResult()
      return process
    } catch (error) {
      this.#detaching = undefined
      throw error
    }
  }

  /** Kills the command if it is still running. Resolves once all its processes have exited and the result is known. */
  async #stop(): Promise<void> {
    this.#feed.close()
    if (this.#isDetached) return
    this.#run?.kill({ signal: undefined, reason: undefined }).catch(() => {})
    await this.#outcome.catch(() => {})
  }
}

/** How a command has ended that is not a process. */
export function exitOf(result: Result | undefined): api.ProcessExit {
  const { exitCode = null, signal = null, timedOut, cancelled } = result ?? {}
  if (timedOut || cancelled) return { exitCode, signal, reason: timedOut ? 'timeout' : 'killed' }
  if (signal !== null) return { exitCode, signal, reason: 'signal' }
  return { exitCode, signal, reason: exitCode === null ? null : 'exit' }
}

/** Passes everything to the callbacks, then to the feed, which controls the permits. */
function observe(plan: CallbackPlan, feed: Feed): RunObserver {
  const callbacks = callbackObserver(plan)
  if (callbacks === undefined) return feed
  return {
    start(pid) {
      callbacks.start(pid)
      feed.start(pid)
    },
    output(stream, data) {
      callbacks.output(stream, data)
      return feed.output(stream, data)
    },
    end() {
      callbacks.end()
      feed.end()
    },
  }
}
