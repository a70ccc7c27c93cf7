/**
 * Waits for a log line that matches a pattern: among existing lines, then among new ones.
 *
 * A line counts once it is complete. A line without an end, like a prompt, counts once no output has followed for a moment
 * or the process has ended. So `/port (\d+)/` does not match half a number.
 */

import { within } from '../../../base/waiting.js'
import type { FoundLine } from '../../../protocol/endpoints.js'
import type { LogPlan } from '../../../requests/waits.js'
import type { Engine } from '../engine.js'
import { exitedBeforeReady, notInTime } from './failures.js'
import type { ProcessHandle } from './handle.js'
import { linesOf } from './log-lines.js'
import { firstOf } from './wait-for.js'

export function waitForLog(engine: Engine, handle: ProcessHandle, plan: LogPlan): Promise<FoundLine> {
  const { cursor, pattern } = plan
  const awaited = `a line of its log had ${pattern.shown}`
  return within(
    plan,
    async (stop) => {
      const conditions = { input: false, log: { ...pattern.wanted, cursor }, timeout: 0 }
      const { logLines } = await firstOf(engine, handle.ref, conditions, stop)
      const [line] = logLines === undefined ? [] : linesOf(logLines, 'utf8')
      if (line === undefined) return exitedBeforeReady(engine, handle, awaited)
      const { input, spans = [] } = logLines ?? {}
      return { line: line.text, ...(input !== undefined && { input }), ...(spans.length > 0 && { spans }) }
    },
    () => notInTime(engine, handle, awaited, plan.timeout),
  )
}
