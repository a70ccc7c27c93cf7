/** After the swap: nacre is the engine. This is the complete code. */
import { createSessionClass } from 'nacre/container'
import { SessionDestroyedError, ShellTerminatedError } from './errors.js'

export const Session = createSessionClass({ ShellTerminatedError, SessionDestroyedError })
