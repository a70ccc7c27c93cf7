/** What `nacre/client` exports. The public types are in `lib/public`. */
export { OptionError, SandboxError } from '../errors.js'
export { SandboxClient } from './sandbox.js'
