/**
 * Starts a process, and ties it to what it was given: its input, its AbortSignal and its callbacks.
 */
import { onAbort, refuseAborted } from '../abort.js'
import type { Engine } from '../engine.js'
import { AbortError, engineError } from '../errors.js'
import { InputFeed } from '../input.js'
import type { ProcessPlan } from '../options/process.js'
import { traced, withTracedEnv } from '../tracing.js'
import { exitOf, ProcessHandle } from './handle.js'
import { observe, reportError } from './observe.js'
import { closeInput, write } from './stdin.js'

/**
 * Resolves when the process runs, with what `introduce` makes of it, which onStart is given as well. An abort, or an
 * exception of onStart, in the meantime kills the process and is the rejection.
 */
export async function startProcess<T>(
  engine: Engine,
  plan: ProcessPlan,
  introduce: (handle: ProcessHandle) => T,
): Promise<T> {
  refuseAborted(plan.signal, 'the process')
  const feed = plan.source && new InputFeed(plan.source)
  try {
    const handle = await launch(engine, plan)
    const stop = () => void handle.kill(handle.killDefaults).catch(() => {})
    const release = onAbort(plan.signal, stop)
    const shown = introduce(handle)
    handle.ended.then(() => {
      release()
      feed?.close()
    })
    await begin(handle, plan, shown)
    feed?.feed({
      // A process that reads no more is no failure of the source.
      write: (data) => write(engine, handle, data).catch(() => feed.close()),
      closeInput: () => closeInput(engine, handle),
      fail(error) {
        reportError(engine, plan.callbacks, error)
        stop()
      },
    })
    observe(engine, handle, plan.callbacks)
    return shown
  } catch (error) {
    feed?.close()
    throw error
  }
}

async function launch(engine: Engine, plan: ProcessPlan): Promise<ProcessHandle> {
  let handle: ProcessHandle | undefined
  const { command, argv, sessionId, processId } = plan.request
  const about = () => ({ command, argv, sessionId, processId, changes: plan.request })
  await traced('process', about, async (context) => {
    handle = await launchNow(engine, { ...plan, request: withTracedEnv(plan.request, context) })
    if (context !== undefined) {
      context.pid = handle.state.pid
      context.ended = handle.ended.then(exitOf)
    }
  })
  // Not the result of the traced call: subscribers must not get hold of it.
  return handle as unknown as ProcessHandle
}

function launchNow(engine: Engine, plan: ProcessPlan): Promise<ProcessHandle> {
  return new Promise((resolve, reject) => {
    engine.begin(
      (native, id) => native.startProcess(id, plan.request),
      ({ code, message, process }) => {
        if (process === undefined) reject(engineError(code, message))
        else resolve(new ProcessHandle(engine, process, plan))
      },
    )
  })
}

/** What can still keep the start from being one. */
async function begin(
  handle: ProcessHandle,
  { signal, callbacks }: ProcessPlan,
  shown: unknown,
): Promise<void> {
  try {
    if (signal?.aborted) throw new AbortError(signal.reason, undefined, 'the process')
    callbacks.onStart?.(shown)
  } catch (error) {
    await handle.kill(handle.killDefaults)
    throw error
  }
}
