/**
 * `nacre job rm`: removes jobs that have ended, with their output; with --force also running ones.
 */
import type { Command } from 'commander'
import { printJson } from '../terminal.js'
import { type RootOptions, useJobs, withRoot } from './root.js'

interface Options extends RootOptions {
  force?: boolean
}

export function addRemove(job: Command): void {
  withRoot(job.command('rm'))
    .description('remove jobs that have ended')
    .argument('<id...>')
    .option('-f, --force', 'cancel running jobs first')
    .action(async (ids: string[], options: Options) => {
      await useJobs(options, async (jobs) => {
        for (const id of ids) {
          if (options.force) await jobs.cancel(id)
          await jobs.remove(id)
        }
      })
      if (options.json) await printJson({ removed: ids })
    })
}
