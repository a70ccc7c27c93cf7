/** The options of `createSandboxJobs`. Paths are those of the remote machine. */

import type { SandboxJobsOptions } from '../public/index.js'
import { env } from '../schema/env.js'
import { table } from '../schema/kind.js'
import { milliseconds, pause } from '../schema/numbers.js'
import { remoteDirectory } from '../schema/paths.js'

/** Of `createSandboxJobs`. */
export const remoteJobsOptions = table<SandboxJobsOptions>()({
  jobsRoot: { ...remoteDirectory, default: '/tmp/sandbox-jobs' },
  cwd: remoteDirectory,
  env,
  forceKillAfterDelay: { ...milliseconds, default: 5000 },
  callTimeout: { ...pause, default: 60_000 },
  maxPollInterval: { ...pause, default: 2000 },
})
