/**
 * One run of a command in this process's engine, from its plan to its end, with its input and its AbortSignal.
 */
import { onAbort, refuseAborted } from '../../base/abort.js'
import { engineError, notDetached } from '../../base/errors.js'
import type { NativeProcess, NativeProcessRef } from '../../boundary/index.js'
import type { Process } from '../../calls/index.js'
import { InputFeed } from '../../run/input.js'
import type { Result, RunObserver, StreamRun } from '../../run/run.js'
import type { Engine } from './engine.js'
import { Run, type RunEnd } from './engine-run.js'
import type { ExecPlan } from './plan/exec.js'
import { readLines } from './processes/log-lines.js'
import { readWhole } from './processes/log-text.js'
import { waitFor } from './processes/wait-for.js'
import { waiting } from './processes/waiting.js'
import { conclude } from './result.js'

/** Runs a command and resolves with its result. */
export async function exec(
  engine: Engine,
  plan: ExecPlan,
  observer: RunObserver | undefined,
): Promise<Result> {
  return finish(engine, plan, await begin(engine, plan, observer).run.ended)
}

/** Runs a command as a stream. `adopt` keeps the process that it may become. */
export function stream(
  engine: Engine,
  plan: ExecPlan,
  observer: RunObserver,
  adopt: (process: NativeProcess) => Process,
): StreamRun {
  /** Undefined if the command could not be sent to the engine. */
  let begun: Begun | undefined
  const perform = async () => {
    begun = begin(engine, plan, observer)
    return finish(engine, plan, await begun.run.ended)
  }
  return {
    outcome: perform(),
    giveBack: (permits) => begun?.run.giveBack(permits),
    async kill(signal) {
      if (begun === undefined) return false
      begun.run.kill(signal)
      const { result } = await begun.run.ended
      return result?.isCanceled ?? false
    },
    view: {
      logs: async (encoding) => readWhole(engine, processOf(begun), encoding),
      logLines: async (plan) => readLines(engine, processOf(begun), plan),
      waiting: async () => (begun?.run.isPending ? waiting(engine, processOf(begun)) : null),
      waitFor: async (plan) => waitFor(engine, processOf(begun), plan),
    },
    async detach() {
      if (begun === undefined) throw notDetached('it could not be started')
      const process = await begun.run.detach(adopt)
      begun.release()
      return process
    },
  }
}

function processOf(begun: Begun | undefined): NativeProcessRef {
  if (begun?.run.process === undefined)
    throw engineError('PROCESS_NOT_FOUND', 'the command could not be started')
  return begun.run.process
}

function finish(engine: Engine, plan: ExecPlan, end: RunEnd): Promise<Result> {
  if (end.pid !== undefined) plan.onPid?.(end.pid)
  if (end.result !== undefined) engine.history.add(plan.request.sessionId, plan.command, end.result)
  return conclude(plan, end)
}

/** A run, and what frees it from its AbortSignal. */
interface Begun {
  run: Run
  release(): void
}

/** Starts a run immediately. Throws if it cannot start. */
function begin(engine: Engine, plan: ExecPlan, observer: RunObserver | undefined): Begun {
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
  return { run, release }
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
