/**
 * `nacre job ls`: one line for each job, in the order of their starts.
 */
import type { Command } from 'commander'
import type { JobInfo } from '../../public/index.js'
import { colorsOf, printJson, printLine } from '../terminal.js'
import { describeStatus } from './describe.js'
import { type RootOptions, useJobs, withRoot } from './root.js'

/** A line of the list shows this many characters of a command. */
const MOST_CHARACTERS = 60

export function addList(job: Command): void {
  withRoot(job.command('ls'))
    .alias('list')
    .description('list all jobs')
    .action(async (options: RootOptions) => {
      const list = await useJobs(options, (jobs) => jobs.list())
      if (options.json) return printJson(list)
      for (const one of list) await printLine(line(one))
    })
}

function line({ jobId, createdAt, status, processName, command }: JobInfo): string {
  const colors = colorsOf(process.stdout)
  const text = processName ?? (command ?? '').replace(/\s+/g, ' ')
  const short = text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text
  return [jobId, colors.dim(createdAt?.toISOString() ?? '-'), describeStatus(status, colors), short].join(
    '  ',
  )
}
