/**
 * The arguments of createRemoteJobs.
 */

import { kinds, OptionError } from 'nacre/internal'
import { remoteJobsOptions } from './options.js'
import type { CommandBackend } from './public.js'
import type { RemotePlace } from './remote-call.js'
import type { RemoteDefaults } from './request.js'

/** Both arguments of createRemoteJobs, checked. */
export interface RemoteJobsPlan {
  place: RemotePlace
  defaults: RemoteDefaults
  /** Maximum milliseconds between two polls of a job that is being awaited. */
  maxPollInterval: number
}

/** Checks the arguments. Throws OptionError. */
export function planRemoteJobs(backend: unknown, options: unknown): RemoteJobsPlan {
  const values = kinds.readWithDefaults(remoteJobsOptions, options, 'createRemoteJobs')
  const { jobsRoot: root, cwd, env, forceKillAfterDelay: graceMs, callTimeout, maxPollInterval } = values
  return {
    place: {
      backend: kinds.readArgument(commandBackend, backend, 'backend'),
      root,
      callTimeout: Math.ceil(callTimeout / 1000),
    },
    defaults: { root, cwd, env, graceMs },
    maxPollInterval,
  }
}

function commandBackend(value: unknown, name: string): CommandBackend {
  const backend = value as Partial<CommandBackend> | null | undefined
  if (typeof backend?.process?.executeCommand === 'function') return backend as CommandBackend
  throw new OptionError('INVALID_OPTION', `${name} must have the method process.executeCommand`)
}
