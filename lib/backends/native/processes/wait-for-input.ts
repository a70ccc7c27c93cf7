/**
 * Waits until a program of a process waits for input. It looks again and again, because the kernel reports no such event.
 */

import type { WaitLimits } from '../../../base/waiting.js'
import { pause, within } from '../../../base/waiting.js'
import type { ProcessWaiting } from '../../../calls/index.js'
import type { Engine } from '../engine.js'
import { exitedBeforeReady, notInTime } from './failures.js'
import { isOver, type ProcessHandle } from './handle.js'

/** Milliseconds between two looks. */
const INTERVAL = 250

const AWAITED = 'one of its programs waited for input'

export function waitForInput(
  engine: Engine,
  handle: ProcessHandle,
  limits: WaitLimits,
): Promise<ProcessWaiting> {
  return within(
    limits,
    async (stop) => {
      const found = await Promise.race([handle.ended.then(() => undefined), look(engine, handle, stop)])
      stop.throwIfAborted()
      return found ?? exitedBeforeReady(engine, handle, AWAITED)
    },
    () => notInTime(engine, handle, AWAITED, limits.timeout),
  )
}

/** Undefined if `stop` was aborted or the process has ended. */
async function look(
  engine: Engine,
  handle: ProcessHandle,
  stop: AbortSignal,
): Promise<ProcessWaiting | undefined> {
  while (!stop.aborted && !isOver(handle.state)) {
    const found = await waiting(engine, handle)
    if (found?.state === 'reading') return found
    await pause(INTERVAL, stop)
  }
  return undefined
}

/** Looks once. */
export async function waiting(engine: Engine, { ref }: ProcessHandle): Promise<ProcessWaiting | null> {
  const { waiting: found } = await engine.call((native, id) => native.processWaiting(id, ref))
  if (found === undefined) return null
  const { listening, ...rest } = found
  return { state: listening ? 'listening' : 'reading', ...rest }
}
