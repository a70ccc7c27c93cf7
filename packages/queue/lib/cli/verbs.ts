/**
 * `nacre queue status`, `cancel` and `ls`.
 */
import { SandboxError } from 'nacre/internal'
import { type Command, flags, printing, printTable, short } from 'nacre/internal/cli'
import type { QueueJob, QueueListOptions } from '../public.js'
import { type QueueOptions, useQueue, withQueue } from './connection.js'
import { describeQueueJob } from './describe.js'

export function addQueueStatus(group: Command): void {
  withQueue(group.command('status'))
    .description('show the state of a job')
    .argument('<id>')
    .action(async (id: string, options: QueueOptions) => {
      const job = await useQueue(options, (queue) => queue.get(id))
      if (job === null) throw new SandboxError('JOB_NOT_FOUND', `the queue has no job '${id}'`)
      await (options.json
        ? printing.printJson(job)
        : printing.printLine(describeQueueJob(job, printing.colorsOf(process.stdout))))
    })
}

interface CancelOptions extends QueueOptions {
  grace?: number
  timeout?: number
}

export function addQueueCancel(group: Command): void {
  withQueue(group.command('cancel'))
    .description('remove a waiting job, or kill all processes of a running job, on any host')
    .argument('<id>')
    .option('--grace <time>', 'time between SIGTERM and SIGKILL', flags.duration)
    .option('--timeout <time>', 'how long to wait for the job to end (default: 30s)', flags.duration)
    .action(async (id: string, options: CancelOptions) => {
      const { grace: forceKillAfterDelay, timeout, json } = options
      const outcome = await useQueue(options, (queue) => queue.cancel(id, { forceKillAfterDelay, timeout }))
      await (json ? printing.printJson({ id, outcome }) : printing.printLine(outcome))
    })
}

interface ListOptions extends QueueOptions {
  state?: NonNullable<QueueListOptions['state']>
  limit?: number
}

export function addQueueList(group: Command): void {
  withQueue(group.command('ls'))
    .description('list jobs: id, state and command')
    .option(
      '--state <state>',
      'only jobs in this state: waiting, prioritized, delayed, active, completed or failed',
    )
    .option('--limit <number>', 'the maximum number of jobs (default: 100)', flags.wholeNumber)
    .action(async (options: ListOptions) => {
      const { state, limit, json } = options
      const jobs = await useQueue(options, (queue) => queue.list({ state, limit }))
      if (!json) return printTable(['ID', 'STATE', 'COMMAND'], jobs.map(cellsOf))
      for (const job of jobs) await printing.printJson(job)
    })
}

function cellsOf(job: QueueJob): string[] {
  const { id, command } = job
  const text = typeof command === 'string' ? command : command.join(' ')
  const state = describeQueueJob(
    { ...job, failedReason: job.failedReason && short(job.failedReason) },
    printing.colorsOf(process.stdout),
  )
  return [id, state, short(text)]
}
