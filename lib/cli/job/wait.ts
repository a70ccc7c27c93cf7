/**
 * `nacre job wait`: waits for the end of a job and exits with its code.
 */
import type { Command } from 'commander'
import type { JobStatus, Jobs } from '../../calls/index.js'
import { exitCodeOfEnd, TIMED_OUT } from '../failure.js'
import { onSignals } from '../signals.js'
import { colorsOf, printJson } from '../terminal.js'
import { duration } from '../values.js'
import type { Finish } from '../verb.js'
import { describeStatus } from './describe.js'
import { type RootOptions, useJobs, withRoot } from './root.js'

interface Options extends RootOptions {
  timeout?: number
}

export function addWait(job: Command, finish: Finish): void {
  withRoot(job.command('wait'))
    .description('wait until a job ends, and exit with its code')
    .argument('<id>')
    .option(
      '--timeout <time>',
      'stop waiting after this time, like 10s, 2m or 1h, and exit with 124',
      duration,
    )
    .action(async (id: string, options: Options) => {
      finish(await useJobs(options, (jobs) => wait(jobs, id, options)))
    })
}

async function wait(jobs: Jobs, id: string, { timeout, json }: Options): Promise<number> {
  const stop = new AbortController()
  const leave = (code: number) => stop.abort(code)
  const ignore = onSignals((signal) => leave(exitCodeOfEnd(null, signal)))
  const timer = timeout === undefined ? undefined : setTimeout(() => leave(TIMED_OUT), timeout)
  let status: JobStatus
  try {
    status = await jobs.wait(id, { signal: stop.signal })
  } catch (error) {
    if (stop.signal.aborted) return stop.signal.reason as number
    throw error
  } finally {
    ignore()
    clearTimeout(timer)
  }
  if (json) await printJson(status)
  else if (status.exitCode === null)
    process.stderr.write(`${describeStatus(status, colorsOf(process.stderr))}\n`)
  return exitCodeOfEnd(status.exitCode, status.signal)
}
