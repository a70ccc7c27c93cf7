/** What `nacre/engine` exports. The public types are in lib/calls/engine.ts. */

export { OptionError, SandboxError } from '../base/errors.js'
export { connectProgram } from './connect.js'
