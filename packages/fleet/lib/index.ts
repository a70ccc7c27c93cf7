/** What `nacre/fleet` exports. The public types are in `lib/public`. */

export { OptionError, SandboxError } from '../base/errors.js'
export { SandboxFleet } from './fleet.js'
