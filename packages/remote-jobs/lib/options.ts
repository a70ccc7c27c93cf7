/** The options of `createRemoteJobs`. Paths are those of the remote machine. */

import { type Call, kinds } from 'nacre/internal'
import type { RemoteJobsOptions } from './public.js'

export const remoteJobsOptions = kinds.table<RemoteJobsOptions>()({
  jobsRoot: { ...kinds.remoteDirectory, default: '/tmp/sandbox-jobs' },
  cwd: kinds.remoteDirectory,
  env: kinds.env,
  forceKillAfterDelay: { ...kinds.milliseconds, default: 5000 },
  callTimeout: { ...kinds.positiveMilliseconds, default: 60_000 },
  maxPollInterval: { ...kinds.positiveMilliseconds, default: 2000 },
})

/** For the docs. */
export const calls: readonly Call[] = [{ name: 'createRemoteJobs', table: remoteJobsOptions, local: true }]
