/**
 * `nacre job prune`: removes the jobs that have ended, with their output, and prints their ids.
 *
 * Without --root, the directory is that of all programs of the user. So the user must confirm: on a terminal by an answer,
 * elsewhere by --yes.
 */
import type { Command } from 'commander'
import { invalidOption, type OptionError } from '../../base/errors.js'
import type { JobInfo, Jobs } from '../../calls/index.js'
import { prunable, removeEnded } from '../../jobs/prune.js'
import { withExamples } from '../examples.js'
import { confirm, isInteractive, note, printJson, printLine } from '../terminal.js'
import { duration } from '../values.js'
import type { Finish } from '../verb.js'
import { printJobs } from './describe.js'
import { type RootOptions, useJobs, withRoot } from './root.js'

interface Options extends RootOptions {
  olderThan?: number
  dryRun?: boolean
  yes?: boolean
}

/** The exit code after an answer other than yes. */
const DECLINED = 1

export function addPrune(job: Command, finish: Finish): void {
  const prune = withRoot(job.command('prune'))
    .description('remove all jobs that have ended; asks first on a terminal')
    .option('--older-than <time>', 'only jobs that ended at least this long ago, like 2h or 7d', duration)
    .option('-n, --dry-run', 'list the jobs that would be removed, and remove nothing')
    .option('-y, --yes', 'do not ask; without a terminal, either this or --root is required')
    .action(async (options: Options) => {
      finish(await useJobs(options, (jobs) => run(jobs, options)))
    })
  withExamples(prune, [
    ['nacre job prune --dry-run', 'lists the ended jobs of all programs of the user'],
    ['nacre job prune --older-than 7d', 'keeps jobs that ended within the last week'],
    ['nacre job prune --root /srv/jobs --yes', 'does not ask'],
  ])
}

async function run(jobs: Jobs, options: Options): Promise<number> {
  const { root, olderThan = 0, dryRun, yes, json } = options
  if (root === undefined && !dryRun && !yes && !isInteractive()) throw unconfirmed(jobs.root)
  const ended = prunable(await jobs.list(), olderThan)
  note(`ended jobs to remove in ${jobs.root}: ${ended.length}`)
  if (dryRun) {
    await list(ended, jobs.root, json)
    return 0
  }
  if (ended.length > 0 && !yes && isInteractive() && !(await confirm(question(ended, options)))) {
    note('nothing was removed')
    return DECLINED
  }
  const removed = await removeEnded(ended, (jobId) => jobs.remove(jobId))
  if (json) await printJson({ root: jobs.root, removed })
  else for (const id of removed) await printLine(id)
  return 0
}

async function list(ended: JobInfo[], root: string, json: boolean | undefined): Promise<void> {
  if (json) return printJson({ root, wouldRemove: ended.map(({ jobId }) => jobId) })
  if (ended.length > 0) await printJobs(ended)
}

function question(ended: JobInfo[], { root }: Options): string {
  const whose = root === undefined ? 'any program of this user may have started them; ' : ''
  return `${whose}remove ${ended.length === 1 ? 'it' : `all ${ended.length}`} with the output?`
}

function unconfirmed(root: string): OptionError {
  return invalidOption(
    `this would remove the ended jobs of all programs of this user in ${root}: name a directory with --root, ` +
      'confirm with --yes, or list the jobs with --dry-run',
  )
}
