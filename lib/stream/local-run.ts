/**
 * The run of a stream in this process's own engine.
 */
import type { Engine } from '../engine.js'
import { begin, settle } from '../exec.js'
import type { ExecPlan } from '../options/exec.js'
import type { Run } from '../run.js'
import type { StartRun } from './exec-stream.js'

export function localRun(engine: Engine, plan: ExecPlan): StartRun {
  return (observer) => {
    /** Not there when the command could not be sent to the engine. */
    let run: Run | undefined
    const outcome = settle(engine, plan, (traced) => {
      run = begin(engine, traced, observer)
      return run.ended
    })
    return {
      outcome,
      giveBack: (permits) => run?.giveBack(permits),
      async kill(signal) {
        if (run === undefined) return false
        run.kill(signal)
        const { result } = await run.ended
        return result?.isCanceled ?? false
      },
    }
  }
}
