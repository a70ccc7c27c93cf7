/**
 * Whether a program of a process, or of a command, waits for input.
 */
import type { NativeProcessRef, NativeWaiting } from '../../../boundary/index.js'
import type { ProcessWaiting } from '../../../calls/index.js'
import type { Engine } from '../engine.js'

/** Looks once. */
export async function waiting(engine: Engine, ref: NativeProcessRef): Promise<ProcessWaiting | null> {
  const found = await engine.call((native, id) => native.processWaiting(id, ref))
  return found && waitingOf(found)
}

export function waitingOf({ listening, ...rest }: NativeWaiting): ProcessWaiting {
  return { state: listening ? 'listening' : 'reading', ...rest }
}
