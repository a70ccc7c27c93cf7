/** The options of `@nacre/queue`. */

import type { Encoding } from 'nacre'
import {
  abortSignal,
  bytes,
  type Call,
  count,
  encoding,
  flag,
  jobStartOptions,
  logger,
  MAX_MILLISECONDS,
  milliseconds,
  oneOf,
  positiveMilliseconds,
  table,
} from 'nacre/internal'
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
  logger,
}

/** Of `new JobQueue`. */
export const jobQueueOptions = table<JobQueueOptions>()({
  ...connectionOptions,
})

const { command, cwd, env, timeout, limits, input } = jobStartOptions

/** What of a job is for its durable job; it is stored in the data of the BullMQ job. */
export const queueCommandOptions = { command, cwd, env, timeout, limits, input }

/** Of `queue.add`; the command is required. */
export const queueAddOptions = table<QueueAddOptions>()({
  ...queueCommandOptions,
  id: queueJobId,
  attempts: { ...count(1, MOST_ATTEMPTS), default: 1 },
  backoff,
  priority: { ...count(0, 2_097_151), default: 0 },
  delay: { ...milliseconds, default: 0 },
  lifo: { ...flag, default: false },
  removeOnComplete: keep,
  removeOnFail: keep,
  check: { ...flag, default: true },
  onHostLost: { ...oneOf(['fail', 'retry']), default: 'fail' },
})

/** Of `queue.wait`. */
export const queueWaitOptions = table<QueueWaitOptions>()({ signal: abortSignal })

/** Of `queue.cancel`. */
export const queueCancelOptions = table<QueueCancelOptions>()({
  forceKillAfterDelay: milliseconds,
  timeout: { ...milliseconds, default: 30_000 },
})

/** Of `queue.logs`. */
export const queueLogsOptions = table<QueueLogsOptions<Encoding>>()({
  cursor: { ...bytes, default: 0 },
  follow: { ...flag, default: false },
  attempt: count(1, MOST_ATTEMPTS),
  lines: { ...flag, default: false },
  encoding: { ...encoding, default: 'utf8' },
  signal: abortSignal,
})

/** Of `queue.list`. */
export const queueListOptions = table<QueueListOptions>()({
  state: queueState,
  limit: { ...count(1, 100_000), default: 100 },
  offset: { ...count(0, Number.MAX_SAFE_INTEGER), default: 0 },
})

/** Of `new JobWorker`. */
export const jobWorkerOptions = table<JobWorkerOptions>()({
  ...connectionOptions,
  jobs: durableJobs,
  host: hostId,
  concurrency: { ...count(1, 100_000), default: 1 },
  limiter,
  lease: { ...count(1000, MAX_MILLISECONDS, 'ms'), default: 60_000 },
  absence: count(1000, MAX_MILLISECONDS, 'ms'),
  lockDuration: { ...count(1000, MAX_MILLISECONDS, 'ms'), default: 30_000 },
  stalledInterval: { ...count(100, MAX_MILLISECONDS, 'ms'), default: 30_000 },
  progressInterval: { ...positiveMilliseconds, default: 1000 },
  retention: { ...count(1000, MAX_MILLISECONDS, 'ms'), default: 86_400_000 },
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
