/**
 * `nacre job status`: shows the state of a job. The exit code shows only whether the state could be read.
 */
import type { Command } from 'commander'
import { colorsOf, printJson, printLine } from '../terminal.js'
import { describeStatus } from './describe.js'
import { type RootOptions, useJobs, withRoot } from './root.js'

export function addStatus(job: Command): void {
  withRoot(job.command('status'))
    .description('show the state of a job')
    .argument('<id>')
    .action(async (id: string, options: RootOptions) => {
      const status = await useJobs(options, (jobs) => jobs.status(id))
      await (options.json ? printJson(status) : printLine(describeStatus(status, colorsOf(process.stdout))))
    })
}
