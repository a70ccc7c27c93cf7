/** The options of `createSandboxJobs`. Paths are those of the remote machine. */

import { env, milliseconds, pause } from '../schema/kinds.js'
import { type Kind, option } from '../schema/option.js'
import { remoteDirectory } from '../schema/remote-paths.js'

const directory: Kind<string> = {
  read: remoteDirectory,
  bounds: 'an absolute path without control characters',
}

/** Of `createSandboxJobs`. */
export const remoteJobsOptions = {
  jobsRoot: option(directory, {
    doc: 'Directory of the jobs, created with mode 0700.',
    default: '/tmp/sandbox-jobs',
  }),
  cwd: option(directory, {
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
