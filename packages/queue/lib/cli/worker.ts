/**
 * `nacre worker`: runs jobs of a queue as durable jobs of this host, until a signal ends it. The jobs outlive it.
 */
import os from 'node:os'
import path from 'node:path'
import type { kinds } from 'nacre/internal'
import {
  type Command,
  checkSandbox,
  flags,
  InvalidArgumentError,
  onSignals,
  printing,
  withExamples,
} from 'nacre/internal/cli'
import { connectionOf, type QueueOptions, withConnection, withRemedy } from './connection.js'

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
  isolation?: kinds.Preset
  isolationFile?: string
}

export function addWorker(program: Command): void {
  const worker = withConnection(program.command('worker'))
    .description(
      'run jobs of a queue on this host; jobs continue after SIGTERM, and the next worker attaches to them',
    )
    .option('--host-id <id>', 'the id of this host; use the same id after a restart (default: the host name)')
    .option('--root <directory>', 'the directory of durable jobs')
    .option(
      '--cwd <directory>',
      'the directory in which jobs run (default: the current one)',
      flags.existingDirectory,
    )
    .option(
      '--concurrency <number>',
      'the maximum number of jobs that run at the same time (default: 1)',
      flags.wholeNumber,
    )
    .option(
      '--limit <max/time>',
      'start at most this many jobs in this time over all workers, like 10/1s',
      limit,
    )
    .option(
      '--lease <time>',
      'how long a host may be silent before it counts as lost (default: 60s)',
      flags.duration,
    )
    .option('--absence <time>', 'the lease after SIGTERM, while jobs run (default: 10m)', flags.duration)
    .option('--lock <time>', 'the duration of locks in BullMQ (default: 30s)', flags.duration)
    .option('--retention <time>', 'how long to keep ended jobs and their logs (default: 1d)', flags.duration)
    .addOption(flags.isolationOption())
    .option('--isolation-file <file>', 'a file with rules as JSON; --isolation replaces its preset')
    .action(run)
  withExamples(worker, [
    ['nacre worker --concurrency 4', 'takes jobs from the queue nacre in a local Redis'],
    [
      'nacre worker --redis redis://db:6379 --queue builds --root /var/lib/jobs',
      'takes jobs from another queue',
    ],
    ['nacre worker --limit 10/1s', 'starts at most ten jobs per second over all workers'],
  ])
}

async function run(options: Options): Promise<void> {
  const { JobWorker } = await import('../index.js')
  const { Sandbox } = await import('nacre')
  const {
    hostId,
    root,
    cwd,
    isolation,
    isolationFile,
    limit: limiter,
    lock,
    lease,
    absence,
    ...rest
  } = options
  const { concurrency, retention } = rest
  await using sandbox = new Sandbox({
    cwd,
    jobsRoot: root,
    isolation,
    isolationFile: isolationFile && path.resolve(isolationFile),
  })
  await checkSandbox(sandbox)
  const settings = { concurrency, limiter, lease, absence, retention }
  const worker = new JobWorker({
    ...connectionOf(options),
    jobs: sandbox.jobs,
    host: hostId ?? os.hostname(),
    ...settings,
    lockDuration: lock,
    stalledInterval: lock,
    logger: {
      ...printing.stderrLogger,
      warn: (text) => printing.stderrLogger.warn(text.startsWith('Redis: ') ? withRemedy(text) : text),
    },
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
  return { max: Number(max), duration: flags.duration(time) }
}
