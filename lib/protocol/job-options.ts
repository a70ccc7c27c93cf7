/** The options of durable jobs. They are the same for every backend that runs jobs. */

import type {
  Encoding,
  JobCancelOptions,
  JobFilter,
  JobFollowOptions,
  JobPruneOptions,
  JobReadOptions,
  JobStartOptions,
  JobWaitOptions,
} from '../calls/index.js'
import { command, data } from '../schema/command.js'
import { oneOf } from '../schema/constructors.js'
import { env } from '../schema/env.js'
import { table } from '../schema/kind.js'
import { displayName, identifier } from '../schema/names.js'
import { count, milliseconds, seconds } from '../schema/numbers.js'
import { directory } from '../schema/paths.js'
import { limits } from '../schema/process.js'
import { abortSignal } from '../schema/signals.js'
import { encoding, flag } from '../schema/values.js'

const MOST_READ_BYTES = 64 * 1024 * 1024

/** Of `jobs.start`; the command is required. */
export const jobStartOptions = table<JobStartOptions>()({
  command,
  jobId: identifier,
  cwd: directory,
  env,
  processName: displayName,
  timeout: { ...milliseconds, default: 0 },
  timeoutSeconds: seconds,
  limits,
  input: data,
  stdin: data,
})

/** Of `jobs.read`. */
export const jobReadOptions = table<JobReadOptions<Encoding>>()({
  // Much output takes few calls, and little memory.
  maxBytes: { ...count(1, MOST_READ_BYTES, 'bytes'), default: 1_048_576 },
  lines: { ...flag, default: false },
  encoding: { ...encoding, default: 'utf8' },
})

/** Of `jobs.follow`. */
export const jobFollowOptions = table<JobFollowOptions<Encoding>>()({
  ...jobReadOptions,
  signal: abortSignal,
})

/** Of `jobs.wait`. */
export const jobWaitOptions = table<JobWaitOptions>()({ signal: abortSignal })

/** Of `jobs.list`. */
export const jobListOptions = table<JobFilter>()({
  state: oneOf(['running', 'exited', 'crashed']),
  processName: displayName,
})

/** Of `jobs.prune`. */
export const jobPruneOptions = table<JobPruneOptions>()({
  olderThan: { ...count(0, Number.MAX_SAFE_INTEGER, 'ms'), default: 0 },
})

/** Of `jobs.cancel`. */
export const jobCancelOptions = table<JobCancelOptions>()({
  forceKillAfterDelay: milliseconds,
  graceMs: milliseconds,
})
