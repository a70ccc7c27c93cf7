/**
 * Waits until a program of a process waits for input.
 */

import type { WaitLimits } from '../../../base/waiting.js'
import type { ProcessWaiting } from '../../../calls/index.js'
import type { Engine } from '../engine.js'
import { exitedBeforeReady, notInTime } from './failures.js'
import type { ProcessHandle } from './handle.js'
import { waitFor } from './wait-for.js'

const AWAITED = 'one of its programs waited for input'

export async function waitForInput(
  engine: Engine,
  handle: ProcessHandle,
  limits: WaitLimits,
): Promise<ProcessWaiting> {
  const plan = { ...limits, input: true, log: undefined, fromLine: 1, idle: undefined }
  const { by, input } = await waitFor(engine, handle.ref, plan)
  if (input !== undefined) return input
  return by === 'exit'
    ? exitedBeforeReady(engine, handle, AWAITED)
    : notInTime(engine, handle, AWAITED, limits.timeout)
}
