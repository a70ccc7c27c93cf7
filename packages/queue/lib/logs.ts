/** The output of an attempt, from whichever host has it. */
import type { Encoding, JobRead } from 'nacre'
import { AbortError, aborts, engineError, isCode, pause, type plans } from 'nacre/internal'
import type { Location } from './job-view.js'
import type { LogSource } from './log-source.js'

export interface LogsPlan extends plans.JobReadPlan {
  cursor: number
  follow: boolean
  signal: AbortSignal | undefined
}

/** What the queue knows about the attempt. */
export interface LogsContext {
  /** Where the attempt is; undefined when it has not begun. Rejects when the job is not in the queue. */
  find: () => Promise<Location | undefined>
  /** Resolves when the attempt may have begun. */
  news: (stop: AbortSignal) => Promise<void>
  open: (stop: AbortSignal) => Promise<LogSource>
}

/** A host claims an attempt a moment before its process starts. */
const START_MS = 50

/** The pieces. Leaving the loop ends every wait. */
export function logsOf(
  context: LogsContext,
  plan: LogsPlan,
  closed: AbortSignal,
): AsyncIterableIterator<JobRead<Encoding>, undefined> {
  const stop = new AbortController()
  let release: (() => void) | undefined
  const pieces = read(context, plan, stop.signal)
  const leave = () => {
    release?.()
    stop.abort()
  }
  const settle = async (next: Promise<IteratorResult<JobRead<Encoding>, undefined>>) => {
    try {
      const result = await next
      if (!result.done) return result
    } catch (error) {
      leave()
      throw plan.signal?.aborted ? new AbortError(plan.signal.reason, undefined, 'reading the logs') : error
    }
    leave()
    if (plan.signal?.aborted) throw new AbortError(plan.signal.reason, undefined, 'reading the logs')
    if (closed.aborted) throw new AbortError(closed.reason, undefined, 'reading the logs')
    return { done: true as const, value: undefined }
  }
  return {
    [Symbol.asyncIterator]() {
      return this
    },
    next() {
      if (release === undefined) {
        const both = [plan.signal, closed].map((signal) => aborts.onAbort(signal, () => stop.abort()))
        release = () => {
          for (const ignore of both) ignore()
        }
        if (plan.signal?.aborted || closed.aborted) stop.abort()
      }
      return settle(pieces.next())
    },
    async return() {
      leave()
      await pieces.return(undefined).catch(() => {})
      return { done: true as const, value: undefined }
    },
  }
}

async function* read(
  context: LogsContext,
  plan: LogsPlan,
  stop: AbortSignal,
): AsyncGenerator<JobRead<Encoding>, undefined> {
  let cursor = plan.cursor
  const found = await begun(context, plan.follow, stop)
  if (found === undefined || stop.aborted) return undefined
  const source = await context.open(stop)
  let { state } = found
  for (;;) {
    try {
      for await (const piece of from(source, cursor, plan, stop)) {
        cursor = piece.cursor
        yield piece
      }
      return undefined
    } catch (error) {
      if (stop.aborted) return undefined
      if (!isCode(error, 'JOB_NOT_FOUND')) throw error
      const before = state
      state = (await context.find())?.state ?? ''
      // The process may have started after the host looked for it.
      if (before !== 'claimed' && state !== 'claimed') throw error
      if (state !== 'claimed') continue
      if (!plan.follow) return undefined
      await pause(START_MS, stop)
    }
  }
}

async function* from(
  source: LogSource,
  start: number,
  plan: LogsPlan,
  stop: AbortSignal,
): AsyncGenerator<JobRead<Encoding>, undefined> {
  const { maxBytes, lines, encoding } = plan
  if (plan.follow) return yield* source.follow(start, { maxBytes, lines, encoding, signal: stop })
  for (let cursor = start; !stop.aborted; ) {
    const piece = await source.read(cursor, { maxBytes, lines, encoding })
    if (piece.bytesFetched === 0) return undefined
    cursor = piece.cursor
    yield piece
  }
  return undefined
}

/** Where the attempt is, once it has begun. undefined when it has not and must not be waited for. */
async function begun(
  context: LogsContext,
  follow: boolean,
  stop: AbortSignal,
): Promise<Location | undefined> {
  for (;;) {
    const found = await context.find()
    if (found?.isLost) throw engineError('HOST_LOST', `the host '${found.host}' is lost, and has the output`)
    if (found !== undefined || !follow || stop.aborted) return found
    await context.news(stop)
  }
}
