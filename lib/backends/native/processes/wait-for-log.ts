/**
 * Waits for a log line that matches a pattern: among existing lines, then among new ones.
 *
 * A line counts once it is complete. A line without an end, like a prompt, counts once no output has followed for a moment
 * or the process has ended. So `/port (\d+)/` does not match half a number.
 */

import { inTime, within } from '../../../base/waiting.js'
import type { LogMatch } from '../../../calls/index.js'
import type { LogPlan } from '../../../requests/waits.js'
import type { Engine } from '../engine.js'
import { exitedBeforeReady, notInTime } from './failures.js'
import type { ProcessHandle } from './handle.js'
import { LineAssembler } from './lines.js'
import { LogDecoder } from './log-decoder.js'
import { LogReader } from './log-reader.js'

/** Milliseconds without output after which an incomplete line counts. */
const QUIET_MS = 50

export function waitForLog(engine: Engine, handle: ProcessHandle, plan: LogPlan): Promise<LogMatch> {
  const awaited = `a line of its log had ${plan.pattern.shown}`
  return within(
    plan,
    async (stop) => {
      const match = await search(engine, handle, plan, stop)
      // After a timeout or an abort, the result is discarded.
      stop.throwIfAborted()
      return match ?? exitedBeforeReady(engine, handle, awaited)
    },
    () => notInTime(engine, handle, awaited, plan.timeout),
  )
}

/** The first match; undefined if the log ended without a match. */
async function search(
  engine: Engine,
  handle: ProcessHandle,
  { pattern, cursor }: LogPlan,
  stop: AbortSignal,
): Promise<LogMatch | undefined> {
  const reader = new LogReader(engine, handle.ref, cursor, 'awaited')
  stop.addEventListener('abort', () => reader.close(), { once: true })
  const decoder = new LogDecoder('utf8', cursor)
  const streams = { stdout: new LineAssembler(), stderr: new LineAssembler() }
  const rests = () => [streams.stdout.rest, streams.stderr.rest].filter((rest) => rest !== '')
  let quiet = true
  for (;;) {
    const next = reader.follow()
    if (
      !quiet &&
      (await inTime(
        QUIET_MS,
        next.catch(() => {}),
      )) === undefined
    ) {
      quiet = true
      const match = first(rests(), pattern.find)
      if (match !== undefined) return match
    }
    const log = await next
    if (log === undefined) return undefined
    for (const { type, data } of decoder.write(log)) {
      const match = first(streams[type].write(data as string), pattern.find)
      if (match !== undefined) return match
    }
    if (log.ended) return first(rests(), pattern.find)
    quiet = rests().length === 0
  }
}

function first<T>(lines: string[], find: (line: string) => T | undefined): T | undefined {
  for (const line of lines) {
    const found = find(line)
    if (found !== undefined) return found
  }
  return undefined
}
