/** What `nacre/client` exports. The public types are in `lib/public`. */

export { SandboxClient } from './backends/http/client.js'
export { OptionError, SandboxError } from './base/errors.js'
