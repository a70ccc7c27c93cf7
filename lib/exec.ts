/**
 * One run of a command from checked arguments to a result or an error, with its input, abort and callbacks: the whole
 * of exec, and what execStream adds events to.
 */
import type { Encoding, ExecResult } from '../index.js'
import { onAbort, refuseAborted } from './abort.js'
import { callbackObserver } from './callbacks.js'
import type { Engine } from './engine.js'
import { InputFeed } from './input.js'
import type { ExecPlan } from './options/exec.js'
import { conclude } from './result.js'
import { Run, type RunEnd, type RunObserver } from './run.js'
import { type TraceContext, traced, withTracedEnv } from './tracing.js'
import { announce } from './verbose.js'

/** Runs the command. */
export function exec(engine: Engine, plan: ExecPlan): Promise<ExecResult<Encoding>> {
  return settle(engine, plan, (traced) => begin(engine, traced, callbackObserver(plan)).ended)
}

/** The result of a run, published and printed where that is wanted. `perform` gets the plan that is to be run. */
export function settle(
  engine: Engine,
  plan: ExecPlan,
  perform: (plan: ExecPlan) => Promise<RunEnd>,
): Promise<ExecResult<Encoding>> {
  const { command, request } = plan
  const about = () => ({ command, argv: request.argv, sessionId: request.sessionId, changes: request })
  return traced('exec', about, (context) =>
    resultOf(engine, plan, () => (context === undefined ? perform(plan) : follow(plan, context, perform))),
  )
}

/** Runs the plan with what the subscribers of a tracing channel have added, and gives them the pid. */
async function follow(
  plan: ExecPlan,
  context: TraceContext,
  perform: (plan: ExecPlan) => Promise<RunEnd>,
): Promise<RunEnd> {
  const end = await perform({ ...plan, request: { ...withTracedEnv(plan.request, context), start: true } })
  if (end.pid !== undefined) context.pid = end.pid
  return end
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
