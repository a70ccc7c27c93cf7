/** What `nacre/client` exports. The public types are in `client.d.ts` at the top, written by hand. */
export { OptionError, SandboxError } from '../errors.js'
export { SandboxClient } from './sandbox.js'
