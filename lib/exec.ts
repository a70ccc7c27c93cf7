/**
 * exec: one run of a command from checked arguments to a result or an error, with its input, abort and callbacks.
 */
import type { Encoding, ExecResult } from '../index'
import { onAbort, refuseAborted } from './abort'
import { callbackObserver } from './callbacks'
import type { Engine } from './engine'
import { InputFeed } from './input'
import type { ExecPlan } from './options/exec'
import { conclude } from './result'
import { Run, type RunEnd } from './run'

/** Runs the command and tells onComplete or onError before the promise settles. */
export async function exec(engine: Engine, plan: ExecPlan): Promise<ExecResult<Encoding>> {
  try {
    const result = await conclude(plan, await perform(engine, plan))
    plan.callbacks.onComplete?.(result)
    return result
  } catch (error) {
    reportError(engine, plan, error)
    throw error
  }
}

async function perform(engine: Engine, plan: ExecPlan): Promise<RunEnd> {
  refuseAborted(plan.signal)
  const { input } = plan
  const feed = input === undefined || input instanceof Uint8Array ? undefined : new InputFeed(input)
  try {
    const run = new Run(engine, plan.request, callbackObserver(plan))
    const release = onAbort(plan.signal, () => {
      run.interrupt()
      feed?.close()
    })
    feed?.feed(run)
    return await run.ended.finally(release)
  } finally {
    feed?.close()
  }
}

/** exec rejects with the first error; one of onError itself goes to the logger. */
function reportError(engine: Engine, plan: ExecPlan, error: unknown): void {
  try {
    plan.callbacks.onError?.(error)
  } catch (second) {
    engine.warn(`onError threw: ${second}`)
  }
}
