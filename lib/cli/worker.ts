/**
 * `nacre worker`: runs jobs of a queue as durable jobs of this host, until a signal ends it. The jobs outlive it.
 */
import os from 'node:os'
import { type Command, InvalidArgumentError } from 'commander'
import type { Preset } from '../options/isolation.js'
import { withExamples } from './examples.js'
import { whole } from './queue/add.js'
import { connectionOf, loadQueue, type QueueOptions, withConnection } from './queue/connection.js'
import { onSignals } from './signals.js'
import { duration, isolationOption } from './values.js'

interface Options extends QueueOptions {
  hostId?: string
  root?: string
  cwd?: string
  concurrency?: number
  limit?: { max: number; duration: number }
  lease?: number
  absence?: number
  lock?: number
  retention?: number
  url?: string
  isolation?: Preset
}

export function addWorker(program: Command): void {
  const worker = withConnection(program.command('worker'))
    .description(
      'run jobs of a queue on this host; they go on after SIGTERM, and the next start attaches to them',
    )
    .option('--host-id <id>', 'the id of this host, the same after a restart (default: the host name)')
    .option('--root <directory>', 'where the jobs are kept')
    .option('--cwd <directory>', 'where jobs run (default: here)')
    .option('--concurrency <number>', 'jobs that run at a time (default: 1)', whole)
    .option('--limit <max/time>', 'at most so many jobs in so much time, over all workers, like 10/1s', limit)
    .option('--lease <time>', 'a host that is silent for so long is lost (default: 60s)', duration)
    .option('--absence <time>', 'the same after SIGTERM, while jobs run (default: 10m)', duration)
    .option('--lock <time>', 'the duration of locks in BullMQ (default: 30s)', duration)
    .option('--retention <time>', 'how long ended jobs and their logs are kept (default: 1d)', duration)
    .option('--url <url>', 'a server with the same jobs, from which logs are read')
    .addOption(isolationOption())
    .action(run)
  withExamples(worker, [
    ['nacre worker --concurrency 4', 'for the queue nacre of a Redis on this machine'],
    ['nacre worker --redis redis://db:6379 --queue builds --root /var/lib/jobs', 'for another queue'],
    ['nacre worker --limit 10/1s', 'starts at most ten jobs a second, with all other workers'],
  ])
}

async function run(options: Options): Promise<void> {
  const { JobWorker } = await loadQueue()
  const { Sandbox } = await import('../backends/native/sandbox.js')
  const { hostId, root, cwd, isolation, limit: limiter, lock, lease, absence, ...rest } = options
  const { concurrency, retention, url } = rest
  await using sandbox = new Sandbox({ cwd, jobsRoot: root, isolation })
  const settings = { concurrency, limiter, lease, absence, retention, url }
  const worker = new JobWorker({
    ...connectionOf(options),
    jobs: sandbox.jobs,
    host: hostId ?? os.hostname(),
    ...settings,
    lockDuration: lock,
    stalledInterval: lock,
    logger,
  })
  let isAsked = false
  const ignore = onSignals(() => {
    isAsked = true
    void worker.close()
  })
  try {
    await worker.start()
    console.log(`nacre takes jobs as host ${hostId ?? os.hostname()}`)
    await worker.stopped
  } catch (error) {
    // A signal may come while it still waits for Redis.
    if (!isAsked) throw error
  } finally {
    await worker.close()
    ignore()
  }
}

/** 10/1s: ten in a second. */
function limit(text: string): { max: number; duration: number } {
  const [, max, time] = /^(\d{1,9})\/(.+)$/.exec(text) ?? []
  if (max === undefined || time === undefined) throw new InvalidArgumentError('It must be like 10/1s.')
  return { max: Number(max), duration: duration(time) }
}

/** Standard output is for the start alone. */
const logger = {
  debug() {},
  info: (message: string) => console.error(message),
  warn: (message: string) => console.error(message),
  error: (message: string) => console.error(message),
}
