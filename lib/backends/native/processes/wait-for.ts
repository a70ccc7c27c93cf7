/**
 * Waits for the first of several things that a process, or a command, can do.
 */
import { engineError } from '../../../base/errors.js'
import type { NativeConditions, NativeFirst, NativeProcessRef } from '../../../boundary/index.js'
import type { WaitEnd } from '../../../calls/index.js'
import type { WaitForPlan } from '../../../requests/waits.js'
import { abortable, type Engine } from '../engine.js'
import { exitOf } from './handle.js'
import { linesOf } from './log-lines.js'
import { waitingOf } from './waiting.js'

/** How a command ended that never began. */
const NEVER = { exitCode: null, signal: null, reason: null }

export async function waitFor(
  engine: Engine,
  ref: NativeProcessRef,
  { signal, log, fromLine, ...rest }: WaitForPlan,
): Promise<WaitEnd> {
  const wanted = log === undefined ? {} : { log: { pattern: log, isText: false, fromLine } }
  const { first, process, waiting, logLines } = await firstOf(engine, ref, { ...rest, ...wanted }, signal)
  switch (first) {
    case 'exit':
      return { by: first, exit: process === undefined ? NEVER : exitOf(process) }
    case 'input':
      if (waiting !== undefined) return { by: first, input: waitingOf(waiting) }
      break
    case 'log': {
      const [line] = logLines === undefined ? [] : linesOf(logLines, 'utf8')
      if (line !== undefined) return { by: first, line }
      break
    }
    case 'idle':
    case 'timeout':
      return { by: first }
  }
  throw engineError('ENGINE_ERROR', 'the engine did not say what came first')
}

/** What came first. */
export function firstOf(
  engine: Engine,
  ref: NativeProcessRef,
  conditions: NativeConditions,
  signal: AbortSignal | undefined,
): Promise<NativeFirst> {
  return abortable(engine, 'the wait', signal, (native, id) => native.waitFor(id, ref, conditions))
}
