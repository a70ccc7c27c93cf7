/** What `nacre/client` exports. The public types are in `client.d.ts` at the top, written by hand. */
export { OptionError, SandboxError } from '../errors'
export { SandboxClient } from './sandbox'
