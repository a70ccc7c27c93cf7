/** The options of `createRemoteJobs`. Paths are those of the remote machine. */

import { type Call, env, milliseconds, positiveMilliseconds, remoteDirectory, table } from 'nacre/internal'
import type { RemoteJobsOptions } from './public.js'

export const remoteJobsOptions = table<RemoteJobsOptions>()({
  jobsRoot: { ...remoteDirectory, default: '/tmp/sandbox-jobs' },
  cwd: remoteDirectory,
  env,
  forceKillAfterDelay: { ...milliseconds, default: 5000 },
  callTimeout: { ...positiveMilliseconds, default: 60_000 },
  maxPollInterval: { ...positiveMilliseconds, default: 2000 },
})

/** For the docs. */
export const calls: readonly Call[] = [{ name: 'createRemoteJobs', table: remoteJobsOptions, local: true }]
