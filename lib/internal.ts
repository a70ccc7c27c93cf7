/**
 * What the companion packages in packages/ share with nacre. For these alone: each needs exactly its own version of nacre, and
 * anything here may change in any release.
 */

export { VERSION } from './addon/platforms.js'
export { isBusy, refusalCode } from './backends/http/failure.js'
export { tracedExec } from './backends/native/traced-exec.js'
export { traced } from './backends/native/tracing.js'
export { abortable, onAbort, orAborted, refuseAborted } from './base/abort.js'
export { Backoff } from './base/backoff.js'
export { fromBase64 } from './base/base64.js'
export { crypto, path, timers } from './base/builtin.js'
export { makeDirectories } from './base/directories.js'
export { AbortError, engineError, isCode, OptionError, SandboxError, unknownId } from './base/errors.js'
export { urlOf } from './base/realm.js'
export { type Cuts, KNOWN_SECRETS, Redactor, secretNames, secretValues } from './base/redact.js'
export { report } from './base/report.js'
export { signalNumber } from './base/signals.js'
export { clearInterval, clearTimeout, performance, setInterval, setTimeout } from './base/timers.js'
export { inTime, pause } from './base/waiting.js'
export { absolute } from './base/working-directory.js'
export { jobReadOptions, jobStartOptions } from './calls/jobs.js'
export { freshJobId } from './jobs/ids.js'
export { followOutput, type OutputBackend, readOutput } from './jobs/output.js'
export { QUEUE_LABEL } from './jobs/prune.js'
export type { Fetched } from './jobs/read.js'
export type { JobRecord, JobState } from './jobs/record.js'
export { publicHandle, publicInfo, publicStatus } from './jobs/status.js'
export type { Call } from './protocol/calls.js'
export { decodeOptions, encodeOptions } from './protocol/codec.js'
export { TOKEN_HEADER } from './protocol/headers.js'
export type { ExecRequest } from './requests/exec.js'
export type { JobFollowPlan, JobPlace, JobReadPlan, JobStartPlan, JobWaitPlan } from './requests/jobs.js'
export type { Result } from './run/run.js'
export type { JobsBackend } from './sandbox/backend.js'
export { RootedJobs } from './sandbox/jobs.js'
export { readCommand, showCommand } from './schema/command.js'
export { object, oneOf, pattern, quoted } from './schema/constructors.js'
export { type EnvLists, env } from './schema/env.js'
export { headers, portNumber, serverUrl, token } from './schema/http.js'
export { type Preset, SECRETS } from './schema/isolation-rules.js'
export { type CompleteValues, type Kind, type OptionValues, table } from './schema/kind.js'
export {
  bytes,
  count,
  fraction,
  MAX_MILLISECONDS,
  milliseconds,
  positiveMilliseconds,
} from './schema/numbers.js'
export { remoteDirectory } from './schema/paths.js'
export {
  describe,
  quote,
  readArgument,
  readEntries,
  readOptions,
  readWithDefaults,
  withDefaults,
} from './schema/read.js'
export { abortSignal } from './schema/signals.js'
export { encoding, flag, logger, redact, withMethods } from './schema/values.js'
