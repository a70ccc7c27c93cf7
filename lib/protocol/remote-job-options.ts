/** The options of `createSandboxJobs`. Paths are those of the remote machine. */

import { env } from '../schema/env.js'
import { option } from '../schema/kind.js'
import { milliseconds, pause } from '../schema/numbers.js'
import { remoteDirectory } from '../schema/paths.js'

/** Of `createSandboxJobs`. */
export const remoteJobsOptions = {
  jobsRoot: option(remoteDirectory, {
    doc: 'Directory of the jobs, created with mode 0700.',
    default: '/tmp/sandbox-jobs',
  }),
  cwd: option(remoteDirectory, {
    doc: 'Directory in which jobs run.',
    otherwise: 'the directory in which the backend runs commands',
  }),
  env: option(env, {
    doc: "Changes to the environment of the backend's commands.",
    otherwise: 'none',
  }),
  forceKillAfterDelay: option(milliseconds, {
    doc: 'Time between SIGTERM and SIGKILL on a cancel or a timeout.',
    default: 5000,
  }),
  callTimeout: option(pause, {
    doc: 'Time limit of one backend call, rounded up to whole seconds.',
    default: 60_000,
  }),
  maxPollInterval: option(pause, {
    doc: 'Maximum time between two polls of `wait` and `follow`.',
    default: 2000,
  }),
}
