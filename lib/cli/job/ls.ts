/**
 * `nacre job ls`: a table of jobs, the newest first.
 */
import { existsSync } from 'node:fs'
import type { Command } from 'commander'
import type { JobStatus } from '../../calls/index.js'
import { note, printJson } from '../terminal.js'
import { wholeNumber } from '../values.js'
import { printJobs } from './describe.js'
import { type RootOptions, useJobs, withRoot } from './root.js'

interface Options extends RootOptions {
  state?: JobStatus['state']
  name?: string
  limit?: number
}

/** The jobs of a table, unless `--limit` says otherwise. */
const USUAL_LIMIT = 20

export function addList(job: Command): void {
  withRoot(job.command('ls'))
    .alias('list')
    .description('list jobs, the newest first')
    .option('--state <state>', 'only jobs in this state: running, exited or crashed')
    .option('--name <name>', 'only jobs with this name')
    .option(
      '--limit <number>',
      `the most jobs to list (default: ${USUAL_LIMIT}; with --json: all of them)`,
      wholeNumber,
    )
    .action(async (options: Options) => {
      const { state, name, json, limit = json ? Number.POSITIVE_INFINITY : USUAL_LIMIT } = options
      const list = await useJobs(options, async (jobs) => {
        const found = await jobs.list({ state, processName: name })
        // An empty list may be due to a typing error in the root, which then does not exist.
        if (!existsSync(jobs.root))
          note(`the directory ${jobs.root} does not exist: no job was started there`)
        return found.reverse()
      })
      const shown = list.slice(0, limit)
      await (json ? printJson(shown) : printJobs(shown))
      const missing = list.length - shown.length
      if (missing > 0 && !json)
        note(`${missing} older ones are left out: list them with --limit ${list.length}`)
    })
}
