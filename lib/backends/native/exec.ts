/**
 * One run of a command in this process's engine, from its plan to its end, with its input and its AbortSignal.
 */
import { onAbort, refuseAborted } from '../../base/abort.js'
import { InputFeed } from '../../run/input.js'
import type { Result, RunObserver, StreamRun } from '../../run/run.js'
import type { Engine } from './engine.js'
import { Run, type RunEnd } from './engine-run.js'
import type { ExecPlan } from './plan/exec.js'
import { conclude } from './result.js'

/** Runs a command and resolves with its result. */
export async function exec(
  engine: Engine,
  plan: ExecPlan,
  observer: RunObserver | undefined,
): Promise<Result> {
  return finish(engine, plan, await begin(engine, plan, observer).ended)
}

/** Runs a command as a stream. */
export function stream(engine: Engine, plan: ExecPlan, observer: RunObserver): StreamRun {
  /** Undefined if the command could not be sent to the engine. */
  let run: Run | undefined
  const perform = async () => {
    run = begin(engine, plan, observer)
    return finish(engine, plan, await run.ended)
  }
  return {
    outcome: perform(),
    giveBack: (permits) => run?.giveBack(permits),
    async kill(signal) {
      if (run === undefined) return false
      run.kill(signal)
      const { result } = await run.ended
      return result?.isCanceled ?? false
    },
  }
}

function finish(engine: Engine, plan: ExecPlan, end: RunEnd): Promise<Result> {
  if (end.pid !== undefined) plan.onPid?.(end.pid)
  if (end.result !== undefined) engine.history.add(plan.request.sessionId, plan.command, end.result)
  return conclude(plan, end)
}

/** Starts a run immediately. Throws if it cannot start. */
function begin(engine: Engine, plan: ExecPlan, observer: RunObserver | undefined): Run {
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
