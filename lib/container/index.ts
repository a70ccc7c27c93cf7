/** The exports of `nacre/container`. The public types are in `lib/calls`. */
import { createSessionClass } from './session.js'

export { OptionError, SandboxError } from '../base/errors.js'
export { SessionDestroyedError, ShellTerminatedError } from './errors.js'
export { createSessionClass }

/** The session class with nacre's own errors. */
export const Session = createSessionClass()
