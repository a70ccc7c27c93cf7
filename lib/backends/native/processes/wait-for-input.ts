/**
 * Waits until a program of a process waits for input.
 */

import type { WaitLimits } from '../../../base/waiting.js'
import type { ProcessWaiting } from '../../../calls/index.js'
import { INPUT_AWAITED, planInput } from '../../../requests/waits.js'
import type { Engine } from '../engine.js'
import { exitedBeforeReady, notInTime } from './failures.js'
import type { ProcessHandle } from './handle.js'
import { waitFor } from './wait-for.js'

export async function waitForInput(
  engine: Engine,
  handle: ProcessHandle,
  limits: WaitLimits,
): Promise<ProcessWaiting> {
  const { by, input } = await waitFor(engine, handle.ref, planInput(limits))
  if (input !== undefined) return input
  return by === 'exit'
    ? exitedBeforeReady(engine, handle, INPUT_AWAITED)
    : notInTime(engine, handle, INPUT_AWAITED, limits.timeout)
}
