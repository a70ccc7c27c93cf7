/**
 * What `@nacre/server` and `@nacre/sandboxd` share with nacre, beside lib/internal.ts: how calls are read and answered over
 * HTTP. No program of a user may import it: both need exactly their own version of nacre, and anything here may change in any
 * release.
 */

export { NativeBackend } from './backends/native/backend.js'
export { httpStatus } from './backends/native/processes/http-probe.js'
export type { LocalProcess } from './backends/native/processes/process.js'
export { fs, os } from './base/builtin.js'
export { isNotInstalled, notInstalled } from './base/companion.js'
export { HTTP_STATUSES, meaningOf } from './base/errors.js'
export { duplexOf, MOST_MEMORY_MB, ping, STREAM_WINDOW, widen } from './base/http2-pipes.js'
export { ownOnly, owns } from './base/own.js'
export {
  endToEnd,
  type Headers,
  NoReply,
  type Onward,
  passRequest,
  passUpgrade,
} from './base/pass-http.js'
export { Secret } from './base/secret.js'
export * as tables from './calls/tables.js'
export { REFUSED } from './engine/enter.js'
export { type Sendable, sendable } from './protocol/codec.js'
export {
  type CallsOf,
  type Endpoint,
  type ParamsOf,
  planOf,
  type SimpleCalls,
  takesSignal,
} from './protocol/endpoint.js'
export type { NamedProcess } from './protocol/endpoints.js'
export * as endpoints from './protocol/endpoints.js'
export { CALL_HEADER, HOLD_HEADER, INSTANCE_HEADER, RECEIVED_HEADER } from './protocol/headers.js'
export { MOST_KEEP_MS } from './protocol/keep.js'
export {
  checkpointCalls,
  jobCalls,
  machineCalls,
  portCalls,
  processCalls,
  processesCalls,
  questionCalls,
  sessionCalls,
  workspaceCalls,
} from './protocol/simple-calls.js'
export { planEvents } from './requests/events.js'
export { DEFAULT_SESSION, readExec } from './requests/exec.js'
export {
  planFileCopy,
  planFileList,
  planFileRemove,
  planFileRename,
  planFileStat,
  planFileStream,
  planFileWatch,
  planFileWrite,
} from './requests/files.js'
export { planJobCancel, planJobFollow, planJobStart, readCursor } from './requests/jobs.js'
export {
  planFilter,
  planLogStream,
  readKill,
} from './requests/logs.js'
export { readProcess } from './requests/process.js'
export { healthCheck, readService } from './requests/service.js'
export {
  linePattern,
  MOST_PATTERN_CHARACTERS,
  planWait,
  planWaitForLog,
  planWaitForPort,
} from './requests/waits.js'
export { planDiff } from './requests/workspace.js'
export { exitOf, resultOf } from './run/exec-stream.js'
export { AS_STARTED } from './run/start-process.js'
export type {
  Backend,
  EventFeed,
  FileSource,
  FilesBackend,
  HoldBackend,
  ProcessBackend,
  ServiceBackend,
} from './sandbox/backend.js'
export { backendOf } from './sandbox/facade.js'
export { closeInput, hold, processBackend, resize, write } from './sandbox/process.js'
export { openStream, runToEnd, setEnv } from './sandbox/runner.js'
export { base64, command, data, type WireData } from './schema/command.js'
export { text as textKind } from './schema/constructors.js'
export { hostName, origins, requestPath, serverToken, statusCode, variablePrefix } from './schema/http.js'
export type { OptionInput, OptionsSchema, OptionTable, Schema, Typed } from './schema/kind.js'
export { identifier, readId } from './schema/names.js'
export { number as numberKind } from './schema/numbers.js'
export { type CheckedPath, checkPath, directory, directoryText, filePath } from './schema/paths.js'
export { unknownOption } from './schema/read.js'
export {
  type Body,
  boolean,
  date,
  encodeOutput,
  list,
  number,
  only,
  optional,
  type Reply,
  type ReplyValue,
  reply,
  text,
  wordOf,
  yes,
} from './schema/reply.js'
export { killer, killSignal } from './schema/signals.js'
export { switchable } from './schema/values.js'
