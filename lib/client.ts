/** What `nacre/client` exports. The public types are in `lib/calls`. */

export { SandboxClient } from './backends/http/client.js'
export { AbortError, OptionError, SandboxError } from './base/errors.js'
