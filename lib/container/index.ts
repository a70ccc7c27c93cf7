/** What `nacre/container` exports. The public types are in `container.d.ts` at the top, written by hand. */
import { createSessionClass } from './session.js'

export { OptionError, SandboxError } from '../errors.js'
export { SessionDestroyedError, ShellTerminatedError } from './errors.js'
export { createSessionClass }

/** The class with nacre's own errors. */
export const Session = createSessionClass()
