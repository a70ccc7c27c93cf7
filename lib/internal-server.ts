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
export { HTTP_STATUSES, httpStatusOf, meaningOf } from './base/errors.js'
export * as pipes from './base/http2-pipes.js'
export { ownOnly, owns } from './base/own.js'
export * as tables from './calls/tables.js'
export { REFUSED } from './engine/enter.js'
export type { NamedProcess } from './protocol/endpoints.js'
export * as endpoints from './protocol/endpoints.js'
export * as protocol from './protocol/index.js'
export { exitOf } from './run/exec-stream.js'
export { resultOf } from './run/settle.js'
export { AS_STARTED } from './run/start-process.js'
export type * as backends from './sandbox/backend.js'
export { backendOf } from './sandbox/facade.js'
export * as processIo from './sandbox/process.js'
export { openStream, runToEnd, setEnv } from './sandbox/runner.js'
export * as replies from './schema/reply.js'
