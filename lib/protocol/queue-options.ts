/** The options of `nacre/queue`. */
import { clientToken, serverUrl } from '../options/client-values.js'
import { type Kind, option } from '../options/option.js'
import {
  backoff,
  durableJobs,
  hostId,
  keep,
  keyPrefix,
  limiter,
  onHostLost,
  QUEUE_STATES,
  queueJobId,
  queueName,
  queueState,
  redisConnection,
} from '../options/queue-values.js'
import { logger as readLogger } from '../options/values.js'
import type { Logger } from '../public/index.js'
import { jobStartOptions } from './job-options.js'
import { abortSignal, bytes, count, encoding, flag, milliseconds, pause } from './kinds.js'

const LONGEST = 2_147_483_647
const MOST_ATTEMPTS = 1_000_000

const queue: Kind<string> = { read: queueName, bounds: '1 to 100 of A-Z a-z 0-9 . _ -' }
const jobId: Kind<string> = { read: queueJobId, bounds: '1 to 100 of A-Z a-z 0-9 . _ -, no whole number' }
const host: Kind<string> = { read: hostId, bounds: '1 to 64 of A-Z a-z 0-9 . _ -' }
const prefix: Kind<string> = { read: keyPrefix, bounds: '1 to 100 of A-Z a-z 0-9 . _ - : { }' }
const logger: Kind<Logger> = { read: readLogger, bounds: 'an object with debug, info, warn and error' }
const kept = { read: keep, bounds: 'true, false, a number, or { age, count } with age in seconds' }

/** What both sides of a queue need. */
const connectionOptions = {
  name: option(queue, { doc: 'The name of the queue. Required.' }),
  redis: option(
    { read: redisConnection, bounds: 'a redis: or rediss: URL, or options or a client of ioredis' },
    { doc: 'Where Redis is. Required.' },
  ),
  prefix: option(prefix, { doc: 'Prefix of all keys in Redis.', default: 'bull' }),
  logger: option(logger, {
    doc: 'Receives errors of connections, and what a worker does.',
    otherwise: 'none',
  }),
}

/** Of `new JobQueue`. */
export const jobQueueOptions = {
  ...connectionOptions,
  token: option(
    { read: clientToken, bounds: 'printable ASCII without blanks' },
    { doc: 'The token of the servers that workers announce with `url`.', otherwise: 'none' },
  ),
}

const { command, cwd, env, timeout, limits, input } = jobStartOptions

/** What of a job is for its durable job; it is stored in the data of the BullMQ job. */
export const queueCommandOptions = { command, cwd, env, timeout, limits, input }

/** Of `queue.add`; the command is required. */
export const queueAddOptions = {
  ...queueCommandOptions,
  id: option(jobId, { doc: 'The id of the job.', otherwise: 'one that sorts by time and cannot be guessed' }),
  attempts: option(count(1, MOST_ATTEMPTS), { doc: 'How often it may run until it completes.', default: 1 }),
  backoff: option(
    { read: backoff, bounds: "ms, or { type: 'fixed' or 'exponential', delay, jitter }" },
    { doc: 'The pause before a retry.', otherwise: 'none' },
  ),
  priority: option(count(0, 2_097_151), {
    doc: 'Jobs with 0 run first, then those with lower numbers.',
    default: 0,
  }),
  delay: option(milliseconds, { doc: 'Time before the job may run.', default: 0 }),
  lifo: option(flag, { doc: 'It runs before the jobs that wait already.', default: false }),
  removeOnComplete: option(kept, { doc: 'Which completed jobs stay in the queue.', otherwise: 'all stay' }),
  removeOnFail: option(kept, { doc: 'Which failed jobs stay in the queue.', otherwise: 'all stay' }),
  check: option(flag, { doc: 'Any end but exit code 0 fails the job.', default: true }),
  onHostLost: option(
    { read: onHostLost, bounds: 'fail or retry' },
    { doc: 'What becomes of an attempt whose host was lost.', default: 'fail' },
  ),
}

/** Of `queue.wait`. */
export const queueWaitOptions = {
  signal: option(abortSignal, { doc: 'Aborting ends the wait. The job is unaffected.', otherwise: 'none' }),
}

/** Of `queue.cancel`. */
export const queueCancelOptions = {
  forceKillAfterDelay: option(milliseconds, {
    doc: 'Time between SIGTERM and SIGKILL.',
    otherwise: "that of the worker's sandbox",
  }),
  timeout: option(milliseconds, { doc: 'Time to wait for the end of the job.', default: 30_000 }),
}

/** Of `queue.logs`. */
export const queueLogsOptions = {
  cursor: option(bytes, { doc: 'Where to begin.', default: 0 }),
  follow: option(flag, { doc: 'Continues until the attempt has ended.', default: false }),
  attempt: option(count(1, MOST_ATTEMPTS), { doc: 'Which attempt.', otherwise: 'the latest' }),
  lines: option(flag, { doc: 'Cuts behind the last newline.', default: false }),
  encoding: option(encoding, { doc: 'Whether output is a string or bytes.', default: 'utf8' }),
  signal: option(abortSignal, { doc: 'Aborting ends the stream. The job is unaffected.', otherwise: 'none' }),
}

/** Of `queue.list`. */
export const queueListOptions = {
  state: option(
    { read: queueState, bounds: QUEUE_STATES.join(' or ') },
    { doc: 'Only jobs in this state.', otherwise: 'jobs in every state' },
  ),
  limit: option(count(1, 100_000), { doc: 'How many.', default: 100 }),
  offset: option(count(0, Number.MAX_SAFE_INTEGER), { doc: 'How many to skip.', default: 0 }),
}

/** Of `new JobWorker`. */
export const jobWorkerOptions = {
  ...connectionOptions,
  jobs: option(
    { read: durableJobs, bounds: 'the jobs of a Sandbox or a SandboxClient' },
    { doc: 'Where the commands run. Required.' },
  ),
  host: option(host, { doc: 'The id of the host whose jobs these are. Required.' }),
  url: option(
    { read: serverUrl, bounds: 'an http: or https: URL' },
    { doc: 'A server with the same jobs, for logs.', otherwise: 'none: logs go through Redis' },
  ),
  concurrency: option(count(1, 100_000), { doc: 'Jobs that run at a time.', default: 1 }),
  limiter: option(
    { read: limiter, bounds: '{ max, duration } in ms' },
    { doc: 'At most so many jobs in so much time, over all workers.', otherwise: 'none' },
  ),
  lease: option(count(1000, LONGEST, 'ms'), {
    doc: 'Time after which a silent host counts as lost.',
    default: 60_000,
  }),
  absence: option(count(1000, LONGEST, 'ms'), {
    doc: 'The same after `close`, when jobs are still running.',
    otherwise: '600000, or `lease` if that is longer',
  }),
  lockDuration: option(count(1000, LONGEST, 'ms'), {
    doc: 'Time after which BullMQ offers the job of a silent worker to another.',
    default: 30_000,
  }),
  stalledInterval: option(count(100, LONGEST, 'ms'), {
    doc: 'Time between two searches for such jobs.',
    default: 30_000,
  }),
  progressInterval: option(pause, { doc: 'Time between two reports of progress.', default: 1000 }),
  retention: option(count(1000, LONGEST, 'ms'), {
    doc: 'How long ended jobs and their logs stay on this host.',
    default: 86_400_000,
  }),
}
