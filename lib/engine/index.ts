/** What `nacre/engine` exports. The public types are in lib/calls/engine.ts. */

export { AbortError, OptionError, SandboxError } from '../base/errors.js'
export { connectProgram } from './connect.js'
export { openSandbox } from './open.js'
