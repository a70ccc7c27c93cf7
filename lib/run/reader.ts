/**
 * An async iterator over a feed, with items translated to what the consumer reads: events, lines or bytes.
 *
 * A class, because a generator's `return()` waits behind a pending `next()`, forever if a command prints nothing. It also
 * returns many values of one item without waiting in between.
 */
import type { Feed, Item, Outcome } from './feed.js'
import { LoopTurns } from './loop-turns.js'

/** Turns items into values. */
export interface Translator<T> {
  /** The values of an item, in order; often one, possibly none. */
  translate(item: Item): readonly T[]
  /** Maximum bytes of an item. */
  readonly mostBytes: number
  /** Whether `next()` rejects with the error of a failed run, after the last value. */
  readonly throws: boolean
}

type Step<T> = IteratorResult<T, undefined>

interface Waiting<T> {
  resolve(step: Step<T>): void
  reject(error: unknown): void
}

export class Reader<T> implements AsyncIterableIterator<T, undefined> {
  readonly #feed: Feed
  readonly #translator: Translator<T>
  readonly #stop: () => Promise<void>
  readonly #waiting: Waiting<T>[] = []
  readonly #turns = new LoopTurns(() => this.#wake())
  #values: readonly T[] = []
  #at = 0
  #ended = false
  #failure: Outcome | undefined

  /** `stop` ends the run and resolves once all its processes have exited. */
  constructor(feed: Feed, translator: Translator<T>, stop: () => Promise<void>) {
    this.#feed = feed
    this.#translator = translator
    this.#stop = stop
    feed.listen(() => this.#wake())
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  /** May be called again before earlier promises have settled; they settle in order. */
  next(): Promise<Step<T>> {
    try {
      const step = this.#poll()
      if (step !== undefined) return Promise.resolve(step)
    } catch (error) {
      return Promise.reject(error)
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject })
    })
  }

  /** Ends pending reads immediately, and resolves once the command's processes have ended. */
  async return(): Promise<Step<T>> {
    this.#ended = true
    this.#failure = undefined
    this.#values = []
    this.#at = 0
    for (const { resolve } of this.#waiting.splice(0)) resolve(done())
    await this.#stop()
    return done()
  }

  /** The next step, if available. Throws the error that ends the iteration. */
  #poll(): Step<T> | undefined {
    while (this.#at === this.#values.length) {
      if (this.#ended) return this.#finish()
      if (!this.#feed.isEmpty && !this.#turns.hasTime()) return undefined
      const item = this.#feed.take(this.#translator.mostBytes)
      if (item === undefined) return undefined
      this.#values = this.#translator.translate(item)
      this.#at = 0
      if (item.type === 'end') {
        this.#ended = true
        if (this.#translator.throws && 'error' in item) this.#failure = item
      }
    }
    const value = this.#values[this.#at++] as T
    return { done: false, value }
  }

  #finish(): Step<T> {
    const failure = this.#failure
    this.#failure = undefined
    if (failure !== undefined) throw failure.error
    return done()
  }

  #wake(): void {
    for (let first = this.#waiting[0]; first !== undefined; first = this.#waiting[0]) {
      try {
        const step = this.#poll()
        if (step === undefined) return
        first.resolve(step)
      } catch (error) {
        first.reject(error)
      }
      this.#waiting.shift()
    }
  }
}

function done(): { done: true; value: undefined } {
  return { done: true, value: undefined }
}
