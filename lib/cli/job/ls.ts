/**
 * `nacre job ls`: a table of jobs, in the order of their starts.
 */
import { existsSync } from 'node:fs'
import type { Command } from 'commander'
import type { JobStatus } from '../../calls/index.js'
import { note, printJson } from '../terminal.js'
import { printJobs } from './describe.js'
import { type RootOptions, useJobs, withRoot } from './root.js'

interface Options extends RootOptions {
  state?: JobStatus['state']
  name?: string
}

export function addList(job: Command): void {
  withRoot(job.command('ls'))
    .alias('list')
    .description('list jobs')
    .option('--state <state>', 'only jobs in this state: running, exited or crashed')
    .option('--name <name>', 'only jobs with this name')
    .action(async (options: Options) => {
      const { state, name } = options
      const list = await useJobs(options, async (jobs) => {
        const found = await jobs.list({ state, processName: name })
        // An empty list may be due to a typing error in the root, which then does not exist.
        if (!existsSync(jobs.root))
          note(`the directory ${jobs.root} does not exist: no job was started there`)
        return found
      })
      await (options.json ? printJson(list) : printJobs(list))
    })
}
