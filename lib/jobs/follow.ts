/**
 * A job's output from a cursor on, and new output until no process of the job is left to write more.
 */

import { onAbort, refuseAborted } from '../base/abort.js'
import type { Encoding, JobRead } from '../calls/index.js'
import type { Reading } from './read.js'

/** What a backend provides for that. */
export interface Source {
  read: (cursor: number) => Promise<Reading>
  /** Resolves when there may be output beyond `seen`, when no process of the job is left, or when `stop` is aborted. */
  news: (seen: number, stop: AbortSignal) => Promise<void>
}

/**
 * Yields the pieces. Leaving the loop ends any pending wait and leaves the job unaffected. An abort rejects the next call
 * of `next`.
 */
export function follow(
  source: Source,
  cursor: number,
  signal: AbortSignal | undefined,
): AsyncIterableIterator<JobRead<Encoding>, undefined> {
  const stop = new AbortController()
  /** Set by the first `next`: a stream that is never read must not leave a listener. */
  let ignore: (() => void) | undefined
  const pieces = read(source, cursor, signal, stop.signal)
  const leave = () => {
    ignore?.()
    stop.abort()
  }
  const settle = async (
    result: Promise<IteratorResult<JobRead<Encoding>, undefined>>,
  ): Promise<IteratorResult<JobRead<Encoding>, undefined>> => {
    try {
      const next = await result
      if (next.done) leave()
      return next
    } catch (error) {
      leave()
      throw error
    }
  }
  return {
    [Symbol.asyncIterator]() {
      return this
    },
    next() {
      ignore ??= onAbort(signal, () => stop.abort())
      return settle(pieces.next())
    },
    return() {
      leave()
      return settle(pieces.return(undefined))
    },
  }
}

async function* read(
  source: Source,
  cursor: number,
  signal: AbortSignal | undefined,
  stop: AbortSignal,
): AsyncGenerator<JobRead<Encoding>, undefined> {
  let place = cursor
  for (;;) {
    refuseAborted(signal, 'following the job')
    if (stop.aborted) return undefined
    const { read: piece, seen } = await source.read(place)
    if (piece.bytesFetched > 0) {
      place = piece.cursor
      yield piece
    } else if (piece.status.alive) {
      await source.news(seen, stop)
    } else {
      return undefined
    }
  }
}
