/**
 * The arguments of createSandboxJobs.
 */

import { OptionError } from '../../base/errors.js'
import { envChanges } from '../../options/env.js'
import { interval, milliseconds } from '../../options/numbers.js'
import { describe, readArgument, readOptions } from '../../options/read.js'
import type { JobsBackend } from '../../public/index.js'
import type { RemotePlace } from './remote-call.js'
import type { RemoteDefaults } from './request.js'

/** The same place that the native side has by default, for a machine with its temporary files in /tmp. */
const DEFAULT_ROOT = '/tmp/sandbox-jobs'
const DEFAULT_FORCE_KILL_MS = 5000
const DEFAULT_CALL_TIMEOUT_MS = 60_000
const DEFAULT_POLL_MS = 2000

const remoteOptions = {
  jobsRoot: remoteDirectory,
  cwd: remoteDirectory,
  env: envChanges,
  forceKillAfterDelay: milliseconds,
  callTimeout: interval,
  maxPollInterval: interval,
}

/** Both arguments, checked. */
export interface RemoteJobsPlan {
  place: RemotePlace
  defaults: RemoteDefaults
  /** Milliseconds between two looks at a job that is waited for, at most. */
  maxPollInterval: number
}

/** Checks them. Throws OptionError. */
export function planRemoteJobs(backend: unknown, options: unknown): RemoteJobsPlan {
  const values = readOptions(remoteOptions, options, 'createSandboxJobs')
  const root = values.jobsRoot ?? DEFAULT_ROOT
  return {
    place: {
      backend: readArgument(jobsBackend, backend, 'backend'),
      root,
      callTimeout: Math.ceil((values.callTimeout ?? DEFAULT_CALL_TIMEOUT_MS) / 1000),
    },
    defaults: {
      root,
      cwd: values.cwd,
      env: values.env,
      graceMs: values.forceKillAfterDelay ?? DEFAULT_FORCE_KILL_MS,
    },
    maxPollInterval: values.maxPollInterval ?? DEFAULT_POLL_MS,
  }
}

function jobsBackend(value: unknown, name: string): JobsBackend {
  const backend = value as Partial<JobsBackend> | null | undefined
  if (typeof backend?.process?.executeCommand === 'function') return backend as JobsBackend
  throw new OptionError('INVALID_OPTION', `${name} must have the method process.executeCommand`)
}

/** An absolute path on the other machine, of printable characters, without a slash at its end. */
function remoteDirectory(value: unknown, name: string): string {
  if (typeof value === 'string' && /^\/[^\p{Cc}]*$/u.test(value)) return value.replace(/(?<=.)\/+$/, '')
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be an absolute path without control characters, not ${describe(value)}`,
  )
}
