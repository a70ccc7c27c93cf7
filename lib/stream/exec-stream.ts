/**
 * execStream: a run that began when it was made, and the one consumer of its output.
 */
import type {
  Encoding,
  ExecEvent,
  ExecResult,
  ExecStream as PublicExecStream,
  Signal,
  SourceOptions,
} from '../../index.js'
import { type CallbackPlan, callbackObserver } from '../callbacks.js'
import { OptionError } from '../errors.js'
import { readArgument } from '../options/read.js'
import { processSignal } from '../options/signals.js'
import { planSource } from '../options/stream.js'
import type { RunObserver } from '../run.js'
import { AwaitedPromise } from './awaited.js'
import { ByteTranslator, readableStream } from './bytes.js'
import { EventTranslator, type StreamPlan } from './events.js'
import { Feed } from './feed.js'
import { LineTranslator } from './lines.js'
import { Reader, type Translator } from './reader.js'

/** The run behind a stream, wherever it is. */
export interface StreamRun {
  /** What exec would have given. */
  outcome: Promise<ExecResult<Encoding>>
  /** Permits for more pieces of output. */
  giveBack(permits: number): void
  /** Kills the command; null is its `killSignal`. Resolves when it is gone: true when it ended early. */
  kill(signal: number | null): Promise<boolean>
}

/** Starts the run at once, and has it tell the observer. */
export type StartRun = (observer: RunObserver) => StreamRun

export class ExecStream implements PublicExecStream<Encoding> {
  readonly result: Promise<ExecResult<Encoding>>
  readonly #plan: StreamPlan
  readonly #feed: Feed
  readonly #run: StreamRun
  /** How the output is being read. */
  #consumer: string | undefined

  /** Queues the command at once, so that calls keep their order. What keeps it from running is the last event. */
  constructor(plan: StreamPlan & CallbackPlan, start: StartRun) {
    this.#plan = plan
    this.#feed = new Feed((permits) => this.#run.giveBack(permits), plan.request.window)
    this.#run = start(observe(plan, this.#feed))
    // Being listened to here, a rejection that the iteration tells is not an unhandled one as well.
    this.#run.outcome.then(
      (result) => this.#feed.finish({ result }),
      (error) => this.#feed.finish({ error }),
    )
    this.result = AwaitedPromise.of(this.#run.outcome, () => this.#feed.awaitResult())
  }

  async kill(signal?: Signal): Promise<boolean> {
    return this.#run.kill(signal === undefined ? null : readArgument(processSignal, signal, 'signal'))
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<ExecEvent<Encoding>, undefined> {
    return this.#read('iterated', new EventTranslator(this.#plan))
  }

  lines(options?: SourceOptions): AsyncIterableIterator<string, undefined> {
    const streams = planSource(options, 'lines')
    return this.#read('read by lines()', new LineTranslator(streams))
  }

  toReadableStream(options?: SourceOptions): ReadableStream<Uint8Array> {
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
        `a stream can be read once, and this one is ${this.#consumer} already`,
      )
    }
    this.#consumer = how
    return new Reader(this.#feed, translator, () => this.#stop())
  }

  /** Ends the run, if it has not ended, and resolves when nothing of it is left and the result is known. */
  async #stop(): Promise<void> {
    this.#feed.close()
    this.#run.kill(null).catch(() => {})
    await this.#run.outcome.catch(() => {})
  }
}

/** Tells the callbacks, if there are any, and then the feed, which has the last word about permits. */
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
