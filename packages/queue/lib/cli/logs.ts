/**
 * `nacre queue logs`: the output of a job, byte for byte, from whichever host has it. With --follow until the job has
 * finished; then the exit code is the job's. Ctrl-C stops following and does not affect the job.
 */
import { type Command, type Finish, flags, followUntilSignal, printing } from 'nacre/internal/cli'
import type { JobQueue } from '../public.js'
import { type QueueOptions, useQueue, withQueue } from './connection.js'
import { exitCodeOfQueueJob } from './describe.js'

interface Options extends QueueOptions {
  follow?: boolean
  cursor?: number
  attempt?: number
}

export function addQueueLogs(group: Command, finish: Finish): void {
  withQueue(group.command('logs'))
    .description('print the output of a job')
    .argument('<id>')
    .option('-f, --follow', 'continue until the job finishes, and exit with its code')
    .option('--cursor <bytes>', 'skip this many bytes', flags.byteOffset)
    .option('--attempt <number>', 'the number of the attempt (default: the latest)', flags.wholeNumber)
    .action(async (id: string, options: Options) => {
      finish(await useQueue(options, (queue) => show(queue, id, options)))
    })
}

function show(queue: JobQueue, id: string, options: Options): Promise<number> {
  const { follow = false, cursor, attempt, json } = options
  return followUntilSignal(id, async (signal) => {
    const settings = { cursor, attempt, follow, encoding: 'buffer', signal } as const
    for await (const { raw, cursor, status } of queue.logs(id, settings)) {
      if (json) await printing.printJson({ base64: Buffer.from(raw).toString('base64'), cursor, status })
      else if (!(await printing.write(process.stdout, raw))) return printing.NOBODY_READS
      if (process.stdout.destroyed) return printing.NOBODY_READS
    }
    return follow ? exitCodeOfQueueJob(await queue.wait(id, { signal })) : 0
  })
}
