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
} from '../../index'
import { callbackObserver } from '../callbacks'
import type { Engine } from '../engine'
import { OptionError } from '../errors'
import { begin, settle } from '../exec'
import type { ExecPlan } from '../options/exec'
import { readArgument } from '../options/read'
import { processSignal } from '../options/signals'
import { planSource } from '../options/stream'
import type { Run, RunObserver } from '../run'
import { ByteTranslator, readableStream } from './bytes'
import { EventTranslator } from './events'
import { Feed } from './feed'
import { LineTranslator } from './lines'
import { Reader, type Translator } from './reader'

export class ExecStream implements PublicExecStream<Encoding> {
  readonly #plan: ExecPlan
  readonly #feed = new Feed((permits) => this.#run?.giveBack(permits))
  readonly #outcome: Promise<ExecResult<Encoding>>
  /** Not there when the command could not be sent to the engine. */
  #run: Run | undefined
  /** How the output is being read. */
  #consumer: string | undefined

  /** Queues the command at once, so that calls keep their order. What keeps it from running is the last event. */
  constructor(engine: Engine, plan: ExecPlan) {
    this.#plan = plan
    this.#outcome = settle(engine, plan, () => {
      this.#run = begin(engine, plan, observe(plan, this.#feed))
      return this.#run.ended
    })
    // Being listened to here, a rejection that the iteration tells is not an unhandled one as well.
    this.#outcome.then(
      (result) => this.#feed.finish({ result }),
      (error) => this.#feed.finish({ error }),
    )
  }

  get result(): Promise<ExecResult<Encoding>> {
    this.#feed.awaitResult()
    return this.#outcome
  }

  async kill(signal?: Signal): Promise<boolean> {
    const number = signal === undefined ? null : readArgument(processSignal, signal, 'signal')
    if (this.#run === undefined) return false
    this.#run.kill(number)
    const { result } = await this.#run.ended
    return result?.isCanceled ?? false
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
    this.#run?.kill(null)
    await this.#outcome.catch(() => {})
  }
}

/** Tells the callbacks, if there are any, and then the feed, which has the last word about permits. */
function observe(plan: ExecPlan, feed: Feed): RunObserver {
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
