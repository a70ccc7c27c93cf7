/** The options of `@nacre/queue`. */

import type { Encoding } from 'nacre'
import { type Call, jobStartOptions, kinds } from 'nacre/internal'
import {
  backoff,
  durableJobs,
  hostId,
  keep,
  keyPrefix,
  limiter,
  queueJobId,
  queueName,
  queueState,
  redisConnection,
} from './kinds.js'
import type {
  JobQueueOptions,
  JobWorkerOptions,
  QueueAddOptions,
  QueueCancelOptions,
  QueueListOptions,
  QueueLogsOptions,
  QueueWaitOptions,
} from './public.js'

const MOST_ATTEMPTS = 1_000_000

/** What both sides of a queue need. */
const connectionOptions = {
  name: queueName,
  redis: redisConnection,
  prefix: { ...keyPrefix, default: 'bull' },
  logger: kinds.logger,
}

/** Of `new JobQueue`. */
export const jobQueueOptions = kinds.table<JobQueueOptions>()({
  ...connectionOptions,
})

const { command, cwd, env, timeout, limits, input } = jobStartOptions

/** What of a job is for its durable job; it is stored in the data of the BullMQ job. */
export const queueCommandOptions = { command, cwd, env, timeout, limits, input }

/** Of `queue.add`; the command is required. */
export const queueAddOptions = kinds.table<QueueAddOptions>()({
  ...queueCommandOptions,
  id: queueJobId,
  attempts: { ...kinds.count(1, MOST_ATTEMPTS), default: 1 },
  backoff,
  priority: { ...kinds.count(0, 2_097_151), default: 0 },
  delay: { ...kinds.milliseconds, default: 0 },
  lifo: { ...kinds.flag, default: false },
  removeOnComplete: keep,
  removeOnFail: keep,
  check: { ...kinds.flag, default: true },
  onHostLost: { ...kinds.oneOf(['fail', 'retry']), default: 'fail' },
})

/** Of `queue.wait`. */
export const queueWaitOptions = kinds.table<QueueWaitOptions>()({ signal: kinds.abortSignal })

/** Of `queue.cancel`. */
export const queueCancelOptions = kinds.table<QueueCancelOptions>()({
  forceKillAfterDelay: kinds.milliseconds,
  timeout: { ...kinds.milliseconds, default: 30_000 },
})

/** Of `queue.logs`. */
export const queueLogsOptions = kinds.table<QueueLogsOptions<Encoding>>()({
  cursor: { ...kinds.bytes, default: 0 },
  follow: { ...kinds.flag, default: false },
  attempt: kinds.count(1, MOST_ATTEMPTS),
  lines: { ...kinds.flag, default: false },
  encoding: { ...kinds.encoding, default: 'utf8' },
  signal: kinds.abortSignal,
})

/** Of `queue.list`. */
export const queueListOptions = kinds.table<QueueListOptions>()({
  state: queueState,
  limit: { ...kinds.count(1, 100_000), default: 100 },
  offset: { ...kinds.count(0, Number.MAX_SAFE_INTEGER), default: 0 },
})

/** Of `new JobWorker`. */
export const jobWorkerOptions = kinds.table<JobWorkerOptions>()({
  ...connectionOptions,
  jobs: durableJobs,
  host: hostId,
  concurrency: { ...kinds.count(1, 100_000), default: 1 },
  limiter,
  lease: { ...kinds.count(1000, kinds.MAX_MILLISECONDS, 'ms'), default: 60_000 },
  absence: kinds.count(1000, kinds.MAX_MILLISECONDS, 'ms'),
  lockDuration: { ...kinds.count(1000, kinds.MAX_MILLISECONDS, 'ms'), default: 30_000 },
  stalledInterval: { ...kinds.count(100, kinds.MAX_MILLISECONDS, 'ms'), default: 30_000 },
  progressInterval: { ...kinds.positiveMilliseconds, default: 1000 },
  retention: { ...kinds.count(1000, kinds.MAX_MILLISECONDS, 'ms'), default: 86_400_000 },
})

/** For the docs. */
export const calls: readonly Call[] = [
  { name: 'new JobQueue', table: jobQueueOptions, local: true },
  { name: 'queue.add', table: queueAddOptions, local: true },
  { name: 'queue.wait', table: queueWaitOptions, local: true },
  { name: 'queue.cancel', table: queueCancelOptions, local: true },
  { name: 'queue.logs', table: queueLogsOptions, local: true },
  { name: 'queue.list', table: queueListOptions, local: true },
  { name: 'new JobWorker', table: jobWorkerOptions, local: true },
]
