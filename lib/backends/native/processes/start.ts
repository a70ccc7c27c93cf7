/**
 * Starts a process, and ties it to what it was given: its input, its AbortSignal and its callbacks.
 */
import { onAbort, refuseAborted } from '../../../base/abort.js'
import { AbortError, engineError } from '../../../base/errors.js'
import type { ProcessPlan } from '../../../options/process.js'
import { InputFeed } from '../../../run/input.js'
import type { Engine } from '../engine.js'
import { traced } from '../tracing.js'
import { ProcessHandle } from './handle.js'
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

function launch(engine: Engine, plan: ProcessPlan): Promise<ProcessHandle> {
  const { command, sessionId, processId } = plan.request
  return traced(
    'process',
    () => ({ command, sessionId, processId }),
    () => launchNow(engine, plan),
  )
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
