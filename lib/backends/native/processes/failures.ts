/**
 * The errors of waits for a process. They include the end of its log, which usually shows the reason.
 */

import { SandboxError } from '../../../base/errors.js'
import type { NativeProcess } from '../../../boundary/index.js'
import type { SandboxErrorCode } from '../../../calls/index.js'
import type { Engine } from '../engine.js'
import { describeEnd, type ProcessHandle } from './handle.js'
import { readTail } from './log-text.js'

/** Rejects because the process ended. `awaited` completes the sentence, like 'it listened on port 3000'. */
export async function exitedBeforeReady(
  engine: Engine,
  handle: ProcessHandle,
  awaited: string,
): Promise<never> {
  const state = await handle.wait()
  const what = `${describe(state)} ${describeEnd(state)} before ${awaited}`
  throw await failure(engine, handle, 'PROCESS_EXITED_BEFORE_READY', what)
}

/** Rejects because the time is up. */
export async function notInTime(
  engine: Engine,
  handle: ProcessHandle,
  awaited: string,
  timeout: number,
  code: 'PROCESS_READY_TIMEOUT' | 'PROCESS_WAIT_TIMEOUT' = 'PROCESS_READY_TIMEOUT',
): Promise<never> {
  const what = `${describe(handle.state)}: ${timeout} ms passed before ${awaited}; raise the timeout if it needs longer`
  throw await failure(engine, handle, code, what)
}

async function failure(
  engine: Engine,
  handle: ProcessHandle,
  code: SandboxErrorCode,
  what: string,
): Promise<SandboxError> {
  const logTail = await readTail(engine, handle.ref)
  const shown =
    logTail.trim() === '' ? 'It has printed nothing.' : `The end of its log:\n${logTail.trimEnd()}`
  return new SandboxError(code, `${what}. ${shown}`, { logTail })
}

function describe({ processId, command }: NativeProcess): string {
  return `process '${processId}' (${command.length > 200 ? `${command.slice(0, 200)}...` : command})`
}
