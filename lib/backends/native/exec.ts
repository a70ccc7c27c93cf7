/**
 * One run of a command from checked arguments to a result or an error, with its input, abort and callbacks: the whole
 * of exec, and what execStream adds events to.
 */

import { onAbort, refuseAborted } from '../../base/abort.js'
import type { ExecPlan } from '../../options/exec.js'
import type { Encoding, ExecResult } from '../../public/index.js'
import { callbackObserver } from '../../run/callbacks.js'
import { InputFeed } from '../../run/input.js'
import { announce } from '../../run/verbose.js'
import type { Engine } from './engine.js'
import { conclude } from './result.js'
import { Run, type RunEnd, type RunObserver } from './run.js'
import { traced } from './tracing.js'

/** Runs the command. */
export function exec(engine: Engine, plan: ExecPlan): Promise<ExecResult<Encoding>> {
  return settle(engine, plan, () => begin(engine, plan, callbackObserver(plan)).ended)
}

/** The result of a run, published and printed where that is wanted. */
export function settle(
  engine: Engine,
  plan: ExecPlan,
  perform: () => Promise<RunEnd>,
): Promise<ExecResult<Encoding>> {
  const context = () => ({ command: plan.command, sessionId: plan.request.sessionId })
  return traced('exec', context, () => resultOf(engine, plan, perform))
}

/** Calls onComplete or onError before the promise settles. */
async function resultOf(
  engine: Engine,
  plan: ExecPlan,
  perform: () => Promise<RunEnd>,
): Promise<ExecResult<Encoding>> {
  const printEnd = plan.verbose ? announce(plan.command) : undefined
  try {
    const end = await perform()
    if (end.result !== undefined) engine.history.add(plan.request.sessionId, plan.command, end.result)
    const result = await conclude(plan, end)
    printEnd?.({ result })
    plan.callbacks.onComplete?.(result)
    return result
  } catch (error) {
    printEnd?.({ error })
    reportError(engine, plan, error)
    throw error
  }
}

/** Begins a run at once, with its input and its AbortSignal. Throws what keeps it from beginning. */
export function begin(engine: Engine, plan: ExecPlan, observer: RunObserver | undefined): Run {
  refuseAborted(plan.signal)
  const { input } = plan
  const feed = input === undefined || input instanceof Uint8Array ? undefined : new InputFeed(input)
  const run = start(engine, plan, observer, feed)
  const release = onAbort(plan.signal, () => {
    run.interrupt()
    feed?.close()
  })
  feed?.feed(run)
  run.ended.then(() => {
    release()
    feed?.close()
  })
  return run
}

function start(
  engine: Engine,
  plan: ExecPlan,
  observer: RunObserver | undefined,
  feed: InputFeed | undefined,
): Run {
  try {
    return new Run(engine, plan.request, observer)
  } catch (error) {
    feed?.close()
    throw error
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
