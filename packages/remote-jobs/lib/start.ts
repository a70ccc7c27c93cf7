/**
 * Starts a remote job: one call for the request that fits into it, plus one call for each further 66 KiB.
 */

import { type durable, engineError, OptionError, type plans, SandboxError } from 'nacre/internal'
import { call, MOST_INLINE, mark, type RemotePlace, store } from './remote-call.js'
import { buildRequest, type RemoteDefaults } from './request.js'

/** Limits that need a control group, which a script does not have. */
const NEED_CONTROLLERS = ['memory', 'cpus', 'pids'] as const

export async function start(
  place: RemotePlace,
  jobId: string,
  plan: plans.JobStartPlan,
  defaults: RemoteDefaults,
): Promise<durable.JobRecord> {
  check(plan)
  const own = mark()
  const { payload, sizes } = buildRequest(jobId, plan, own, defaults)
  const inline = payload.toString('base64')
  const fits = inline.length <= MOST_INLINE
  if (!fits) await store(place, `@part-${own}`, payload)
  const times = [hundredths(plan.timeout ?? 0), hundredths(defaults.graceMs)]
  const words = [jobId, own, fits ? inline : 'uploaded', ...sizes, ...times, plan.limits?.openFiles ?? 0]
  const [reply = ''] = await call(place, 'start', ...words).catch((error) => {
    throw withDirectory(error, plan.cwd ?? defaults.cwd)
  })
  const pgid = Number(/^started (\d+)$/.exec(reply)?.[1])
  if (Number.isNaN(pgid))
    throw engineError('ENGINE_ERROR', `the script replied to a start with ${JSON.stringify(reply)}`)
  const dir = `${place.root}/${jobId}`
  const { processName } = plan
  return {
    jobId,
    dir,
    outputFile: `${dir}/output.log`,
    exitFile: `${dir}/exit`,
    pgid,
    processName,
    createdAt: '',
  }
}

/** Refuses what can be refused without a call. */
function check({ limits, command }: plans.JobStartPlan): void {
  const missing = NEED_CONTROLLERS.find((name) => limits?.[name] !== undefined)
  if (missing !== undefined)
    throw engineError('LIMIT_UNSUPPORTED', `the limit ${missing} needs control groups: not for remote jobs`)
  // env(1), which starts the program, would treat it as a variable.
  if (command.argv?.[0]?.includes('='))
    throw new OptionError('INVALID_COMMAND', 'command must not name a program with = in a remote sandbox')
}

/** Adds the name of a refused directory to the error. */
function withDirectory(error: unknown, cwd = ''): unknown {
  if (!(error instanceof SandboxError) || error.code !== 'CWD_NOT_FOUND') return error
  return engineError('CWD_NOT_FOUND', `the working directory ${cwd} cannot be entered`, { cause: error })
}

/** Milliseconds as hundredths of a second, the script's unit, rounded up. */
function hundredths(ms: number): number {
  return Math.ceil(ms / 10)
}
