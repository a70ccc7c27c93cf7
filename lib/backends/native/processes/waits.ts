/**
 * Waits for what a process, or a command, does: the first of several things, input, a line of its log. Their errors include the
 * end of the log, which usually shows the reason.
 */
import { engineError, SandboxError } from '../../../base/errors.js'
import { pause, type WaitLimits, within } from '../../../base/waiting.js'
import type {
  NativeConditions,
  NativeFirst,
  NativeProcess,
  NativeProcessRef,
} from '../../../boundary/index.js'
import type { ProcessWaiting, SandboxErrorCode, WaitEnd } from '../../../calls/index.js'
import type { FoundLine } from '../../../protocol/endpoints.js'
import { INPUT_AWAITED, type LogPlan, planInput, type WaitForPlan } from '../../../requests/waits.js'
import { abortable, type Engine } from '../engine.js'
import { describeEnd, exitOf, isOver, type ProcessHandle } from './handle.js'
import { linesOf } from './log-lines.js'
import { readTail } from './log-text.js'
import { waitingOf } from './waiting.js'

/** How a command ended that never began. */
const NEVER = { exitCode: null, signal: null, reason: null }

/** Waits for the first of several things that a process, or a command, can do. */
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
function firstOf(
  engine: Engine,
  ref: NativeProcessRef,
  conditions: NativeConditions,
  signal: AbortSignal | undefined,
): Promise<NativeFirst> {
  return abortable(engine, 'the wait', signal, (native, id) => native.waitFor(id, ref, conditions))
}

/** Waits until a program of a process waits for input. */
export async function waitForInput(handle: ProcessHandle, limits: WaitLimits): Promise<ProcessWaiting> {
  const { by, input } = await waitFor(handle.engine, handle.ref, planInput(limits))
  if (input !== undefined) return input
  return by === 'exit'
    ? exitedBeforeReady(handle, INPUT_AWAITED)
    : notInTime(handle, INPUT_AWAITED, limits.timeout)
}

/**
 * Waits for a log line that matches a pattern: among existing lines, then among new ones.
 *
 * A line counts once it is complete. A line without an end, like a prompt, counts once no output has followed for a moment
 * or the process has ended. So `/port (\d+)/` does not match half a number.
 */
export function waitForLog(handle: ProcessHandle, plan: LogPlan): Promise<FoundLine> {
  const { cursor, pattern } = plan
  const awaited = `a line of its log had ${pattern.shown}`
  return within(
    plan,
    async (stop) => {
      const conditions = { input: false, log: { ...pattern.wanted, cursor }, timeout: 0 }
      const { logLines } = await firstOf(handle.engine, handle.ref, conditions, stop)
      const [line] = logLines === undefined ? [] : linesOf(logLines, 'utf8')
      if (line === undefined) return exitedBeforeReady(handle, awaited)
      const { input, spans = [] } = logLines ?? {}
      return { line: line.text, ...(input !== undefined && { input }), ...(spans.length > 0 && { spans }) }
    },
    () => notInTime(handle, awaited, plan.timeout),
  )
}

/** Repeats a check until it passes, each `interval` ms. `awaited` completes the sentence, like 'it listened on port 3000'. */
export function waitUntil(
  handle: ProcessHandle,
  awaited: string,
  limits: WaitLimits & { interval: number },
  check: (stop: AbortSignal) => Promise<boolean>,
): Promise<void> {
  return within(
    limits,
    async (stop) => {
      while (!isOver(handle.state)) {
        if (await check(stop)) return
        await Promise.race([pause(limits.interval, stop), handle.ended])
        stop.throwIfAborted()
      }
      await exitedBeforeReady(handle, awaited)
    },
    () => notInTime(handle, awaited, limits.timeout),
  )
}

/** Rejects because the process ended. */
async function exitedBeforeReady(handle: ProcessHandle, awaited: string): Promise<never> {
  const state = await handle.wait()
  const what = `${describe(state)} ${describeEnd(state)} before ${awaited}`
  throw await failure(handle, 'PROCESS_EXITED_BEFORE_READY', what)
}

/** Rejects because the time is up. */
export async function notInTime(
  handle: ProcessHandle,
  awaited: string,
  timeout: number,
  code: 'PROCESS_READY_TIMEOUT' | 'PROCESS_WAIT_TIMEOUT' = 'PROCESS_READY_TIMEOUT',
): Promise<never> {
  const what = `${describe(handle.state)}: ${timeout} ms passed before ${awaited}; raise the timeout if it needs longer`
  throw await failure(handle, code, what)
}

async function failure(handle: ProcessHandle, code: SandboxErrorCode, what: string): Promise<SandboxError> {
  const logTail = await readTail(handle)
  const shown =
    logTail.trim() === '' ? 'It has printed nothing.' : `The end of its log:\n${logTail.trimEnd()}`
  return new SandboxError(code, `${what}. ${shown}`, { logTail })
}

function describe({ processId, command }: NativeProcess): string {
  return `process '${processId}' (${command.length > 200 ? `${command.slice(0, 200)}...` : command})`
}
