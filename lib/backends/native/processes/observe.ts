/**
 * The callbacks of a process: its output as text, then its end. Nobody awaits them, so they do not keep the event loop
 * alive, and what they throw goes to onError, or to the logger when there is none.
 */

import { engineError } from '../../../base/errors.js'
import type { ProcessPlan } from '../../../options/process.js'
import type { Engine } from '../engine.js'
import { exitOf, type ProcessHandle } from './handle.js'
import { LogDecoder } from './log-decoder.js'
import { LogReader } from './log-reader.js'

/** Calls them until the process has ended. */
export async function observe(
  engine: Engine,
  handle: ProcessHandle,
  callbacks: ProcessPlan['callbacks'],
): Promise<void> {
  const { onOutput, onExit } = callbacks
  try {
    if (onOutput !== undefined) await tellOutput(engine, handle, onOutput)
  } catch (error) {
    reportError(engine, callbacks, error)
  }
  const end = await handle.ended
  try {
    const { exitCode, signal } = exitOf(end)
    onExit?.(exitCode, signal)
  } catch (error) {
    reportError(engine, callbacks, error)
  }
  if (end.status === 'error')
    reportError(engine, callbacks, engineError('ENGINE_ERROR', `process '${handle.id}' was lost`))
}

/** All of the log, up to the end of the process. Once it throws, it is not told any more. */
async function tellOutput(
  engine: Engine,
  handle: ProcessHandle,
  onOutput: (...parameters: unknown[]) => unknown,
): Promise<void> {
  const reader = new LogReader(engine, handle.id, 0, 'idle')
  const decoder = new LogDecoder('utf8', 0)
  for (;;) {
    const log = await reader.follow()
    if (log === undefined) return
    for (const { type, data } of decoder.write(log)) onOutput(type, data)
    if (log.ended) {
      for (const { type, data } of decoder.end(Date.now())) onOutput(type, data)
      return
    }
  }
}

/** The errors of onError itself go to the logger. */
export function reportError(engine: Engine, { onError }: ProcessPlan['callbacks'], error: unknown): void {
  if (onError === undefined) {
    engine.warn(`a callback of a process threw: ${error}`)
    return
  }
  try {
    onError(error)
  } catch (second) {
    engine.warn(`onError threw: ${second}`)
  }
}
