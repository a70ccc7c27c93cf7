/** What `nacre` exports. The public types are in `lib/calls`. */

export { Sandbox } from './backends/native/sandbox.js'
export { AbortError, AddonError, OptionError, SandboxError } from './base/errors.js'
