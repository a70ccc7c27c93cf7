/** After the swap: the engine is nacre. This is all of it. */
import { createSessionClass } from 'nacre/container'
import { SessionDestroyedError, ShellTerminatedError } from './errors.js'

export const Session = createSessionClass({ ShellTerminatedError, SessionDestroyedError })
