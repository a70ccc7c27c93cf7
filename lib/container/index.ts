/** What `nacre/container` exports. The public types are in `container.d.ts` at the top, written by hand. */
import { createSessionClass } from './session'

export { OptionError, SandboxError } from '../errors'
export { SessionDestroyedError, ShellTerminatedError } from './errors'
export { createSessionClass }

/** The class with nacre's own errors. */
export const Session = createSessionClass()
