/** The options of `nacre/queue`. */

import type { Logger } from '../public/index.js'
import { clientToken, serverUrl } from '../schema/client-values.js'
import { abortSignal, bytes, count, encoding, flag, milliseconds, pause } from '../schema/kinds.js'
import { type Kind, option } from '../schema/option.js'
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
} from '../schema/queue-values.js'
import { logger as readLogger } from '../schema/values.js'
import { jobStartOptions } from './job-options.js'

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
  name: option(queue, { doc: 'The name of the queue.' }),
  redis: option(
    { read: redisConnection, bounds: 'a redis: or rediss: URL, or options or a client of ioredis' },
    { doc: 'How to connect to Redis.' },
  ),
  prefix: option(prefix, { doc: 'Prefix of all keys in Redis.', default: 'bull' }),
  logger: option(logger, {
    doc: 'Receives connection errors and the activity of a worker.',
    otherwise: 'none',
  }),
}

/** Of `new JobQueue`. */
export const jobQueueOptions = {
  ...connectionOptions,
  token: option(
    { read: clientToken, bounds: 'printable ASCII without blanks' },
    { doc: 'The token of the servers that workers name in `url`.', otherwise: 'none' },
  ),
}

const { command, cwd, env, timeout, limits, input } = jobStartOptions

/** What of a job is for its durable job; it is stored in the data of the BullMQ job. */
export const queueCommandOptions = { command, cwd, env, timeout, limits, input }

/** Of `queue.add`; the command is required. */
export const queueAddOptions = {
  ...queueCommandOptions,
  id: option(jobId, { doc: 'The id of the job.', otherwise: 'an unguessable id that sorts by time' }),
  attempts: option(count(1, MOST_ATTEMPTS), { doc: 'Maximum number of attempts.', default: 1 }),
  backoff: option(
    { read: backoff, bounds: "ms, or { type: 'fixed' or 'exponential', delay, jitter }" },
    { doc: 'Pause before a retry.', otherwise: 'none' },
  ),
  priority: option(count(0, 2_097_151), {
    doc: 'Jobs with lower numbers run first; 0 comes before all others.',
    default: 0,
  }),
  delay: option(milliseconds, { doc: 'Time before the job may run.', default: 0 }),
  lifo: option(flag, { doc: 'Puts the job in front of the jobs that are already waiting.', default: false }),
  removeOnComplete: option(kept, {
    doc: 'Which completed jobs BullMQ removes: true removes all, a number is how many stay.',
    otherwise: 'none',
  }),
  removeOnFail: option(kept, {
    doc: 'Which failed jobs BullMQ removes: true removes all, a number is how many stay.',
    otherwise: 'none',
  }),
  check: option(flag, { doc: 'Fails the job unless its command exits with code 0.', default: true }),
  onHostLost: option(
    { read: onHostLost, bounds: 'fail or retry' },
    { doc: 'Whether to fail or retry a job whose host is lost.', default: 'fail' },
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
    otherwise: "the default of the worker's sandbox",
  }),
  timeout: option(milliseconds, {
    doc: 'How long to wait for the job to end; 0 does not wait.',
    default: 30_000,
  }),
}

/** Of `queue.logs`. */
export const queueLogsOptions = {
  cursor: option(bytes, { doc: 'Byte offset at which to begin.', default: 0 }),
  follow: option(flag, { doc: 'Continues until the attempt ends.', default: false }),
  attempt: option(count(1, MOST_ATTEMPTS), {
    doc: 'The number of the attempt.',
    otherwise: 'the latest attempt',
  }),
  lines: option(flag, { doc: 'Ends the output at its last newline.', default: false }),
  encoding: option(encoding, {
    doc: 'Returns output as a string (utf8) or as bytes (buffer).',
    default: 'utf8',
  }),
  signal: option(abortSignal, { doc: 'Aborting ends the stream. The job is unaffected.', otherwise: 'none' }),
}

/** Of `queue.list`. */
export const queueListOptions = {
  state: option(
    { read: queueState, bounds: QUEUE_STATES.join(' or ') },
    { doc: 'Only jobs in this state.', otherwise: 'jobs in any state' },
  ),
  limit: option(count(1, 100_000), { doc: 'Maximum number of jobs.', default: 100 }),
  offset: option(count(0, Number.MAX_SAFE_INTEGER), { doc: 'Number of jobs to skip.', default: 0 }),
}

/** Of `new JobWorker`. */
export const jobWorkerOptions = {
  ...connectionOptions,
  jobs: option(
    { read: durableJobs, bounds: 'the `jobs` of a Sandbox or a SandboxClient' },
    { doc: 'Runs the commands as durable jobs.' },
  ),
  host: option(host, { doc: 'The id of the host that runs the jobs.' }),
  url: option(
    { read: serverUrl, bounds: 'an http: or https: URL' },
    {
      doc: 'URL of a nacre server with the same jobs. Readers get logs from it.',
      otherwise: 'none: logs go through Redis',
    },
  ),
  concurrency: option(count(1, 100_000), {
    doc: 'Maximum number of jobs that run at the same time.',
    default: 1,
  }),
  limiter: option(
    { read: limiter, bounds: '{ max, duration } in ms' },
    { doc: 'Starts at most `max` jobs in `duration`, over all workers.', otherwise: 'none' },
  ),
  lease: option(count(1000, LONGEST, 'ms'), {
    doc: 'How long a host may be silent before it counts as lost.',
    default: 60_000,
  }),
  absence: option(count(1000, LONGEST, 'ms'), {
    doc: 'The `lease` after `close`, while jobs are still running.',
    otherwise: '600000, or `lease` if that is longer',
  }),
  lockDuration: option(count(1000, LONGEST, 'ms'), {
    doc: 'How long a worker may be silent before BullMQ offers its job to another worker.',
    default: 30_000,
  }),
  stalledInterval: option(count(100, LONGEST, 'ms'), {
    doc: 'Time between two checks for jobs of silent workers.',
    default: 30_000,
  }),
  progressInterval: option(pause, { doc: 'Time between two progress reports.', default: 1000 }),
  retention: option(count(1000, LONGEST, 'ms'), {
    doc: 'How long this host keeps ended jobs and their logs.',
    default: 86_400_000,
  }),
}
