/** The options of `createSandboxJobs`. Paths are those of the remote machine. */

import { type Call, env, milliseconds, pause, remoteDirectory, table } from 'nacre/internal'
import type { SandboxJobsOptions } from './public.js'

export const remoteJobsOptions = table<SandboxJobsOptions>()({
  jobsRoot: { ...remoteDirectory, default: '/tmp/sandbox-jobs' },
  cwd: remoteDirectory,
  env,
  forceKillAfterDelay: { ...milliseconds, default: 5000 },
  callTimeout: { ...pause, default: 60_000 },
  maxPollInterval: { ...pause, default: 2000 },
})

/** For the docs. */
export const calls: readonly Call[] = [{ name: 'createSandboxJobs', table: remoteJobsOptions, local: true }]
