/** The options of `nacre/queue`. */

import { oneOf } from '../schema/constructors.js'
import { serverUrl, token } from '../schema/http.js'
import { option } from '../schema/kind.js'
import { bytes, count, MAX_MILLISECONDS, milliseconds, pause } from '../schema/numbers.js'
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
} from '../schema/queue.js'
import { abortSignal } from '../schema/signals.js'
import { encoding, flag, logger } from '../schema/values.js'
import { jobStartOptions } from './job-options.js'

const MOST_ATTEMPTS = 1_000_000

/** What both sides of a queue need. */
const connectionOptions = {
  name: option(queueName, { doc: 'The name of the queue.' }),
  redis: option(redisConnection, { doc: 'How to connect to Redis.' }),
  prefix: option(keyPrefix, { doc: 'Prefix of all keys in Redis.', default: 'bull' }),
  logger: option(logger, {
    doc: 'Receives connection errors and the activity of a worker.',
    otherwise: 'none',
  }),
}

/** Of `new JobQueue`. */
export const jobQueueOptions = {
  ...connectionOptions,
  token: option(token, { doc: 'The token of the servers that workers name in `url`.', otherwise: 'none' }),
}

const { command, cwd, env, timeout, limits, input } = jobStartOptions

/** What of a job is for its durable job; it is stored in the data of the BullMQ job. */
export const queueCommandOptions = { command, cwd, env, timeout, limits, input }

/** Of `queue.add`; the command is required. */
export const queueAddOptions = {
  ...queueCommandOptions,
  id: option(queueJobId, { doc: 'The id of the job.', otherwise: 'an unguessable id that sorts by time' }),
  attempts: option(count(1, MOST_ATTEMPTS), { doc: 'Maximum number of attempts.', default: 1 }),
  backoff: option(backoff, { doc: 'Pause before a retry.', otherwise: 'none' }),
  priority: option(count(0, 2_097_151), {
    doc: 'Jobs with lower numbers run first; 0 comes before all others.',
    default: 0,
  }),
  delay: option(milliseconds, { doc: 'Time before the job may run.', default: 0 }),
  lifo: option(flag, { doc: 'Puts the job in front of the jobs that are already waiting.', default: false }),
  removeOnComplete: option(keep, {
    doc: 'Which completed jobs BullMQ removes: true removes all, a number is how many stay.',
    otherwise: 'none',
  }),
  removeOnFail: option(keep, {
    doc: 'Which failed jobs BullMQ removes: true removes all, a number is how many stay.',
    otherwise: 'none',
  }),
  check: option(flag, { doc: 'Fails the job unless its command exits with code 0.', default: true }),
  onHostLost: option(oneOf(['fail', 'retry']), {
    doc: 'Whether to fail or retry a job whose host is lost.',
    default: 'fail',
  }),
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
  state: option(queueState, { doc: 'Only jobs in this state.', otherwise: 'jobs in any state' }),
  limit: option(count(1, 100_000), { doc: 'Maximum number of jobs.', default: 100 }),
  offset: option(count(0, Number.MAX_SAFE_INTEGER), { doc: 'Number of jobs to skip.', default: 0 }),
}

/** Of `new JobWorker`. */
export const jobWorkerOptions = {
  ...connectionOptions,
  jobs: option(durableJobs, { doc: 'Runs the commands as durable jobs.' }),
  host: option(hostId, { doc: 'The id of the host that runs the jobs.' }),
  url: option(serverUrl, {
    doc: 'URL of a nacre server with the same jobs. Readers get logs from it.',
    otherwise: 'none: logs go through Redis',
  }),
  concurrency: option(count(1, 100_000), {
    doc: 'Maximum number of jobs that run at the same time.',
    default: 1,
  }),
  limiter: option(limiter, {
    doc: 'Starts at most `max` jobs in `duration`, over all workers.',
    otherwise: 'none',
  }),
  lease: option(count(1000, MAX_MILLISECONDS, 'ms'), {
    doc: 'How long a host may be silent before it counts as lost.',
    default: 60_000,
  }),
  absence: option(count(1000, MAX_MILLISECONDS, 'ms'), {
    doc: 'The `lease` after `close`, while jobs are still running.',
    otherwise: '600000, or `lease` if that is longer',
  }),
  lockDuration: option(count(1000, MAX_MILLISECONDS, 'ms'), {
    doc: 'How long a worker may be silent before BullMQ offers its job to another worker.',
    default: 30_000,
  }),
  stalledInterval: option(count(100, MAX_MILLISECONDS, 'ms'), {
    doc: 'Time between two checks for jobs of silent workers.',
    default: 30_000,
  }),
  progressInterval: option(pause, { doc: 'Time between two progress reports.', default: 1000 }),
  retention: option(count(1000, MAX_MILLISECONDS, 'ms'), {
    doc: 'How long this host keeps ended jobs and their logs.',
    default: 86_400_000,
  }),
}
