/**
 * `nacre job prune`: removes the jobs that have ended, with their output, and prints their ids.
 */
import type { Command } from 'commander'
import { withExamples } from '../examples.js'
import { printJson, printLine } from '../terminal.js'
import { duration } from '../values.js'
import { type RootOptions, useJobs, withRoot } from './root.js'

interface Options extends RootOptions {
  olderThan?: number
}

export function addPrune(job: Command): void {
  const prune = withRoot(job.command('prune'))
    .description('remove all jobs that have ended')
    .option('--older-than <time>', 'only jobs that ended at least this long ago, like 2h or 7d', duration)
    .action(async (options: Options) => {
      const pruned = await useJobs(options, (jobs) => jobs.prune({ olderThan: options.olderThan }))
      if (options.json) return printJson({ removed: pruned })
      for (const id of pruned) await printLine(id)
    })
  withExamples(prune, [['nacre job prune --older-than 7d', 'keeps jobs that ended within the last week']])
}
