/**
 * A job's output from a cursor on, and new output until no process of the job is left to write more.
 */

import { onAbort, refuseAborted } from '../base/abort.js'
import { Steps } from '../base/steps.js'
import type { Encoding, JobRead } from '../calls/index.js'
import type { Reading } from './read.js'

/** What a backend provides for that. */
export interface Source {
  read: (cursor: number) => Promise<Reading>
  /** Resolves when there may be output beyond `seen`, when no process of the job is left, or when `stop` is aborted. */
  news: (seen: number, stop: AbortSignal) => Promise<void>
}

/** Leaving the loop ends any pending wait and leaves the job unaffected. An abort rejects the next call of `next`. */
export class Following extends Steps<JobRead<Encoding>> {
  readonly #source: Source
  readonly #signal: AbortSignal | undefined
  readonly #stop = new AbortController()
  #cursor: number
  #isOver = false
  /** Set by the first step: a stream that is never read must not leave a listener. */
  #ignore: (() => void) | undefined

  constructor(source: Source, cursor: number, signal: AbortSignal | undefined) {
    super()
    this.#source = source
    this.#cursor = cursor
    this.#signal = signal
  }

  protected async step(): Promise<IteratorResult<JobRead<Encoding>, undefined>> {
    this.#ignore ??= onAbort(this.#signal, () => this.#stop.abort())
    try {
      while (!this.#isOver) {
        refuseAborted(this.#signal, 'following the job')
        const { read: piece, seen } = await this.#source.read(this.#cursor)
        if (this.#isOver) break
        if (piece.bytesFetched > 0) {
          this.#cursor = piece.cursor
          return { done: false, value: piece }
        }
        if (!piece.status.alive) break
        await this.#source.news(seen, this.#stop.signal)
      }
    } catch (error) {
      this.end()
      throw error
    }
    this.end()
    return { done: true, value: undefined }
  }

  protected end(): void {
    this.#isOver = true
    this.#ignore?.()
    this.#stop.abort()
  }
}
