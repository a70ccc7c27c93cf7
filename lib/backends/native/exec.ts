/**
 * One run of a command in this process's engine, from its plan to its end, with its input and its AbortSignal.
 */
import { onAbort, refuseAborted } from '../../base/abort.js'
import { engineError, ignoring, isCode, notDetached } from '../../base/errors.js'
import type { NativeProcess, NativeProcessRef } from '../../boundary/index.js'
import { InputFeed } from '../../run/input.js'
import type { Result, RunObserver, StreamRun } from '../../run/run.js'
import { ABORTED } from '../../run/start-process.js'
import { processOf } from '../../sandbox/process.js'
import { DetachTimer } from './detach-timer.js'
import type { Engine } from './engine.js'
import { Run, type RunEnd } from './engine-run.js'
import type { ExecPlan } from './plan/exec.js'
import { readLines } from './processes/log-lines.js'
import { readWhole } from './processes/log-text.js'
import type { LocalProcess } from './processes/process.js'
import { waiting } from './processes/waiting.js'
import { waitFor } from './processes/waits.js'
import { conclude } from './result.js'

/** Keeps the process that a run has become. */
type Adopt = (process: NativeProcess) => LocalProcess

/** Runs a command and resolves with its result. Throws if it cannot start. */
export function exec(
  engine: Engine,
  plan: ExecPlan,
  observer: RunObserver | undefined,
  adopt: Adopt,
): Promise<Result> {
  return finish(engine, plan, begin(engine, plan, observer, adopt))
}

/** Runs a command as a stream. `check` throws if it must not start. */
export function stream(
  engine: Engine,
  plan: ExecPlan,
  observer: RunObserver,
  adopt: Adopt,
  check: () => void,
): StreamRun {
  /** Undefined if the command could not be sent to the engine. */
  let begun: Begun | undefined
  /** What the caller has made of the command. Its input may be held. */
  let detached: LocalProcess | undefined
  const perform = async () => {
    check()
    begun = begin(engine, plan, observer, adopt)
    return finish(engine, plan, begun)
  }
  return {
    outcome: perform(),
    giveBack: (permits) => begun?.run.giveBack(permits),
    async kill(request) {
      if (begun === undefined) return false
      begun.run.kill(request)
      const { result } = await begun.run.ended
      return result?.cancelled ?? false
    },
    async write(data) {
      if (begun === undefined) throw engineError('INPUT_CLOSED', 'the command could not be started')
      if (detached !== undefined) return detached.write(data)
      try {
        await begun.run.write(data)
      } catch (error) {
        const process = isCode(error, 'INPUT_CLOSED') ? await begun.timer?.process : undefined
        if (process === undefined) throw error
        await process.write(data)
      }
    },
    async closeInput() {
      if (detached !== undefined) return detached.closeInput()
      begun?.run.closeInput()
      const process = await begun?.timer?.process
      await process?.closeInput()
    },
    async resize(size) {
      const process = detached ?? (await begun?.timer?.process.catch(() => undefined))
      if (process !== undefined) return process.resize(size)
      const ref = begun?.run.process
      if (ref === undefined) return false
      return engine.ask((native) => native.resizeProcess(ref, size.cols, size.rows)) ?? false
    },
    view: {
      logs: async ({ encoding }) => readWhole(engine, refOf(begun), encoding),
      logLines: async (plan) => readLines(engine, refOf(begun), plan),
      async waiting() {
        if (begun?.run.isPending) return waiting(engine, refOf(begun))
        const process = await begun?.timer?.process.catch(() => undefined)
        return process?.waiting() ?? null
      },
      waitFor: async (plan) => waitFor(engine, refOf(begun), plan),
    },
    async detach() {
      if (begun === undefined) throw notDetached('it could not be started')
      const { run, timer, release } = begun
      const byHand = () => run.detach(false, adopt)
      detached = await (timer === undefined ? byHand() : timer.detach(byHand))
      release()
      return processOf(detached)
    },
  }
}

function refOf(begun: Begun | undefined): NativeProcessRef {
  if (begun?.run.process === undefined)
    throw engineError('PROCESS_NOT_FOUND', 'the command could not be started')
  return begun.run.process
}

async function finish(engine: Engine, plan: ExecPlan, { run, timer }: Begun): Promise<Result> {
  const end = await run.ended
  timer?.stop()
  plan.trace?.end(end.pid)
  if (end.result !== undefined) engine.history.add(plan.request.sessionId, plan.command, end.result)
  return timer === undefined ? conclude(plan, end) : finishDetached(plan, end, timer)
}

/** Ends a run that may be a process now. */
async function finishDetached(
  plan: ExecPlan,
  end: RunEnd,
  timer: DetachTimer<LocalProcess>,
): Promise<Result> {
  let process: LocalProcess | undefined
  try {
    process = await timer.process
  } catch (error) {
    // The session has ended meanwhile.
    const { code, message } = error as Partial<Record<'code' | 'message', string>>
    return conclude(plan, { ...end, error: end.error ?? { code, message } })
  }
  if (process === undefined) return conclude(plan, end)
  // Until the call has ended, its caller can end the command.
  if (end.thrown !== undefined || plan.signal?.aborted) await process.kill(ABORTED)
  return conclude(plan, { ...end, process: processOf(process) })
}

/** A run, and what frees it from its AbortSignal. */
interface Begun {
  run: Run
  release(): void
  /** For a run with `detachAfter`. */
  timer: DetachTimer<LocalProcess> | undefined
}

/** Starts a run immediately. Throws if it cannot start. */
function begin(engine: Engine, plan: ExecPlan, observer: RunObserver | undefined, adopt: Adopt): Begun {
  refuseAborted(plan.signal)
  const { input, detachAfter } = plan
  const isSource = typeof input === 'object' && !(input instanceof Uint8Array)
  const feed = isSource ? new InputFeed(input) : undefined
  const detach = () => run.detach(true, adopt)
  const timer = detachAfter === undefined ? undefined : new DetachTimer(detach)
  const begins = timer && (() => timer.start(detachAfter ?? 0))
  const run = start(engine, plan, begins === undefined ? observer : beginning(observer, begins), feed)
  plan.trace?.begin(run.id)
  const release = onAbort(plan.signal, () => {
    run.interrupt()
    void feed?.close()
  })
  void feed?.feed({
    // The command may end before its input.
    write: (data) => ignoring(run.write(data), 'INPUT_CLOSED'),
    closeInput: () => run.closeInput(),
    fail: (error) => run.fail(error),
  })
  if (plan.signal !== undefined || feed !== undefined) {
    void run.ended.then(() => {
      release()
      void feed?.close()
    })
  }
  return { run, release, timer }
}

/** An observer that also calls `begins` when the command starts to run. */
function beginning(observer: RunObserver | undefined, begins: () => void): RunObserver {
  return {
    start(pid) {
      begins()
      observer?.start(pid)
    },
    output: (stream, data) => observer?.output(stream, data) ?? false,
    end: () => observer?.end(),
  }
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
    void feed?.close()
    throw error
  }
}
