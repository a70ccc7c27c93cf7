/** The options of `createSandboxJobs`. Paths are those of the remote machine. */

import { type Kind, option } from '../options/option.js'
import { remoteDirectory } from '../options/remote-paths.js'
import { env, milliseconds, pause } from './kinds.js'

const directory: Kind<string> = {
  read: remoteDirectory,
  bounds: 'an absolute path without control characters',
}

/** Of `createSandboxJobs`. */
export const remoteJobsOptions = {
  jobsRoot: option(directory, {
    doc: 'Directory of the jobs, made with mode 0700.',
    default: '/tmp/sandbox-jobs',
  }),
  cwd: option(directory, { doc: 'Where jobs run.', otherwise: 'where the backend runs commands' }),
  env: option(env, {
    doc: 'Changes to the environment in which the backend runs commands.',
    otherwise: 'none',
  }),
  forceKillAfterDelay: option(milliseconds, {
    doc: 'Time between SIGTERM and SIGKILL of a cancel or a timeout.',
    default: 5000,
  }),
  callTimeout: option(pause, {
    doc: 'Time that one call of the backend may take, in whole seconds, rounded up.',
    default: 60_000,
  }),
  maxPollInterval: option(pause, {
    doc: 'Most time between two looks of `wait` and `follow` at a job.',
    default: 2000,
  }),
}
