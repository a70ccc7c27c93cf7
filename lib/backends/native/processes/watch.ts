/**
 * A process's output as text, and its end, for callbacks. Watching does not keep the event loop alive.
 */
import type { LogEvent } from '../../../calls/index.js'
import { exitOf, type ProcessHandle } from './handle.js'
import { LogDecoder } from './log-decoder.js'
import { LogReader } from './log-reader.js'

/** Without output, reports only the end. An error of the log is thrown after the end. */
export async function* watch(
  handle: ProcessHandle,
  wantsOutput: boolean,
): AsyncGenerator<LogEvent, undefined> {
  let failure: { error: unknown } | undefined
  if (wantsOutput) {
    try {
      yield* readOutput(handle)
    } catch (error) {
      failure = { error }
    }
  }
  const end = await handle.ended
  yield { type: 'exit', ...exitOf(end), time: new Date(end.endedAt ?? Date.now()) }
  if (failure !== undefined) throw failure.error
  return undefined
}

async function* readOutput({ engine, ref }: ProcessHandle): AsyncGenerator<LogEvent, undefined> {
  const reader = new LogReader(engine, ref, 0, 'idle')
  const decoder = new LogDecoder('utf8', 0)
  for (;;) {
    const log = await reader.read(true)
    if (log === undefined) return undefined
    yield* decoder.write(log) as LogEvent[]
    if (!log.ended) continue
    yield* decoder.end(Date.now()) as LogEvent[]
    return undefined
  }
}
