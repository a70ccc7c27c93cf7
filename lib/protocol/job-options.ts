/** The options of durable jobs. They are the same for every backend that runs jobs. */

import { command, data } from '../schema/command.js'
import { oneOf } from '../schema/constructors.js'
import { env } from '../schema/env.js'
import { option } from '../schema/kind.js'
import { displayName, identifier } from '../schema/names.js'
import { count, milliseconds, seconds } from '../schema/numbers.js'
import { directory } from '../schema/paths.js'
import { limits } from '../schema/process.js'
import { abortSignal } from '../schema/signals.js'
import { encoding, flag } from '../schema/values.js'

const MOST_READ_BYTES = 64 * 1024 * 1024

/** Of `jobs.start`; the command is required. */
export const jobStartOptions = {
  command: option(command, { doc: 'The command to run.' }),
  jobId: option(identifier, { doc: 'The id of the job.', otherwise: 'an unguessable id that sorts by time' }),
  cwd: option(directory, {
    doc: "Directory of the job, relative to the sandbox's.",
    otherwise: "the sandbox's",
  }),
  env: option(env, { doc: 'Changes to the environment of the sandbox.', otherwise: 'none' }),
  processName: option(displayName, {
    doc: 'A name for people to read. It need not be unique.',
    otherwise: 'none',
  }),
  timeout: option(milliseconds, {
    doc: 'Time limit; 0 = none. On timeout, all processes of the job are killed.',
    default: 0,
  }),
  timeoutSeconds: option(seconds, {
    doc: 'The time limit in seconds, instead of `timeout`.',
    otherwise: '`timeout`',
  }),
  limits: option(limits, {
    doc: 'Limits of the job.',
    otherwise: "the sandbox's limits, for each job separately",
  }),
  input: option(data, { doc: 'Standard input.', otherwise: 'end of file' }),
  stdin: option(data, { doc: 'Another name for `input`.', otherwise: '`input`' }),
}

/** Of `jobs.read`. */
export const jobReadOptions = {
  maxBytes: option(count(1, MOST_READ_BYTES, 'bytes'), {
    doc: 'Maximum bytes per read.',
    default: 1_048_576,
  }),
  lines: option(flag, { doc: 'Ends the output at its last newline.', default: false }),
  encoding: option(encoding, {
    doc: 'Returns output as a string (utf8) or as bytes (buffer).',
    default: 'utf8',
  }),
}

const signal = option(abortSignal, {
  doc: 'Aborting ends the wait. The job is unaffected.',
  otherwise: 'none',
})

/** Of `jobs.follow`. */
export const jobFollowOptions = { ...jobReadOptions, signal }

/** Of `jobs.wait`. */
export const jobWaitOptions = { signal }

/** Of `jobs.list`. */
export const jobListOptions = {
  state: option(oneOf(['running', 'exited', 'crashed']), {
    doc: 'Only jobs in this state.',
    otherwise: 'jobs in any state',
  }),
  processName: option(displayName, { doc: 'Only jobs with this name.', otherwise: 'jobs with any name' }),
}

/** Of `jobs.prune`. */
export const jobPruneOptions = {
  olderThan: option(count(0, Number.MAX_SAFE_INTEGER, 'ms'), {
    doc: 'Only jobs that ended at least this long ago. For a crashed job, the time counts from its start.',
    default: 0,
  }),
}

/** Of `jobs.cancel`. */
export const jobCancelOptions = {
  forceKillAfterDelay: option(milliseconds, {
    doc: 'Time between SIGTERM and SIGKILL.',
    otherwise: "the sandbox's",
  }),
  graceMs: option(milliseconds, {
    doc: 'Another name for `forceKillAfterDelay`.',
    otherwise: '`forceKillAfterDelay`',
  }),
}
