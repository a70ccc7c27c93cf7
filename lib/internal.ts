/**
 * What the companion packages in packages/ share with nacre. For these alone: each needs exactly its own version of nacre, and
 * anything here may change in any release.
 */

export { refuseAborted } from './base/abort.js'
export { crypto, path, timers } from './base/builtin.js'
export { AbortError, engineError, isCode, OptionError, SandboxError } from './base/errors.js'
export { freshJobId } from './jobs/ids.js'
export { followOutput, type OutputBackend, readOutput } from './jobs/output.js'
export type { Fetched } from './jobs/read.js'
export type { JobRecord, JobState } from './jobs/record.js'
export { publicHandle, publicInfo, publicStatus } from './jobs/status.js'
export type { Call } from './protocol/calls.js'
export type { JobReadPlan, JobStartPlan } from './requests/jobs.js'
export type { JobsBackend } from './sandbox/backend.js'
export { RootedJobs } from './sandbox/jobs.js'
export { type EnvLists, env } from './schema/env.js'
export { table } from './schema/kind.js'
export { milliseconds, pause } from './schema/numbers.js'
export { remoteDirectory } from './schema/paths.js'
export { readArgument, readOptions } from './schema/read.js'
