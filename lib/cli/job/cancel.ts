/**
 * `nacre job cancel`: ends jobs with everything they have started, and returns when nothing of them is left.
 */
import type { Command } from 'commander'
import { printJson } from '../terminal.js'
import { duration } from '../values.js'
import { type RootOptions, useJobs, withRoot } from './root.js'

interface Options extends RootOptions {
  grace?: number
}

export function addCancel(job: Command): void {
  withRoot(job.command('cancel'))
    .description('cancel jobs: kill all their processes')
    .argument('<id...>')
    .option('--grace <time>', 'time between SIGTERM and SIGKILL', duration)
    .action(async (ids: string[], options: Options) => {
      const statuses = await useJobs(options, (jobs) =>
        Promise.all(
          ids.map(async (jobId) => {
            await jobs.cancel(jobId, { forceKillAfterDelay: options.grace })
            return { jobId, status: await jobs.status(jobId) }
          }),
        ),
      )
      if (options.json) await printJson(statuses)
    })
}
