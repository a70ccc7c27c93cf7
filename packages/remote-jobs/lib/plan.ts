/**
 * The arguments of createSandboxJobs.
 */

import { OptionError, readArgument, readWithDefaults } from 'nacre/internal'
import { remoteJobsOptions } from './options.js'
import type { JobsBackend } from './public.js'
import type { RemotePlace } from './remote-call.js'
import type { RemoteDefaults } from './request.js'

/** Both arguments of createSandboxJobs, checked. */
export interface RemoteJobsPlan {
  place: RemotePlace
  defaults: RemoteDefaults
  /** Maximum milliseconds between two polls of a job that is being awaited. */
  maxPollInterval: number
}

/** Checks the arguments. Throws OptionError. */
export function planRemoteJobs(backend: unknown, options: unknown): RemoteJobsPlan {
  const values = readWithDefaults(remoteJobsOptions, options, 'createSandboxJobs')
  const { jobsRoot: root, cwd, env, forceKillAfterDelay: graceMs, callTimeout, maxPollInterval } = values
  return {
    place: {
      backend: readArgument(jobsBackend, backend, 'backend'),
      root,
      callTimeout: Math.ceil(callTimeout / 1000),
    },
    defaults: { root, cwd, env, graceMs },
    maxPollInterval,
  }
}

function jobsBackend(value: unknown, name: string): JobsBackend {
  const backend = value as Partial<JobsBackend> | null | undefined
  if (typeof backend?.process?.executeCommand === 'function') return backend as JobsBackend
  throw new OptionError('INVALID_OPTION', `${name} must have the method process.executeCommand`)
}
